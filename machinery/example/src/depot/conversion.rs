//! Conversion of depots between their versions.

use machinery_server::{ApiVersion, Kind};

use super::{Depot, DepotSpec, v1beta1};

/// Annotation that carries the chargers through v1beta1, which has no field for them.
const CHARGERS: &str = "example.machinery.dev/chargers";

impl From<v1beta1::Depot> for Depot {
    fn from(depot: v1beta1::Depot) -> Self {
        let v1beta1::Depot { mut metadata, spec, .. } = depot;
        let mut chargers = None;
        if let Some(annotations) = &mut metadata.annotations {
            chargers = annotations.remove(CHARGERS).and_then(|text| text.parse().ok());
        }
        metadata.annotations = metadata.annotations.filter(|annotations| !annotations.is_empty());
        let spec = DepotSpec { town: spec.city, bays: spec.bays, chargers };
        Self { api_version: ApiVersion::default(), kind: Kind::default(), metadata, spec }
    }
}

impl From<Depot> for v1beta1::Depot {
    fn from(depot: Depot) -> Self {
        let Depot { mut metadata, spec, .. } = depot;
        if let Some(chargers) = spec.chargers {
            let annotations = metadata.annotations.get_or_insert_default();
            annotations.insert(CHARGERS.to_owned(), chargers.to_string());
        }
        let spec = v1beta1::DepotSpec { city: spec.town, bays: spec.bays };
        Self { api_version: ApiVersion::default(), kind: Kind::default(), metadata, spec }
    }
}
