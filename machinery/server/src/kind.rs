//! Declaration of kinds: the fields that every object has, and the names of the kind.

use std::{borrow::Cow, fmt, marker::PhantomData};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Declares a kind: a struct with `apiVersion`, `kind` and `metadata` before its own fields, and its
/// `kube::Resource`. The crate that calls it needs `serde` and `schemars`.
///
/// ```
/// machinery_server::kind! {
///     /// A pot on a stove.
///     pub struct Pot in "kitchen.dev", "v1", "pots", Namespaced {
///         /// The dish in it.
///         pub dish: String,
///     }
/// }
/// let pot: Pot = serde_json::from_str(r#"{"metadata": {"name": "p"}, "dish": "soup"}"#)?;
/// assert_eq!(serde_json::to_value(&pot)?["apiVersion"], "kitchen.dev/v1");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[macro_export]
macro_rules! kind {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $type:ident in $group:literal, $version:literal, $plural:literal, $scope:ident {
            $($(#[$field_attribute:meta])* $field_visibility:vis $field:ident: $field_type:ty,)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(
            Clone, Debug, PartialEq,
            $crate::expansion::Serialize, $crate::expansion::Deserialize, $crate::expansion::JsonSchema,
        )]
        #[serde(rename_all = "camelCase")]
        $visibility struct $type {
            /// Group and version of this representation of the object.
            #[serde(default)]
            $visibility api_version: $crate::ApiVersion<$type>,
            /// Kind of the object.
            #[serde(default)]
            $visibility kind: $crate::Kind<$type>,
            /// Standard object metadata.
            #[serde(default)]
            $visibility metadata: $crate::expansion::ObjectMeta,
            $($(#[$field_attribute])* $field_visibility $field: $field_type,)*
        }

        impl $crate::expansion::kube::Resource for $type {
            type DynamicType = ();
            type Scope = $crate::kind!(@scope $scope);

            fn kind((): &()) -> ::std::borrow::Cow<'_, str> {
                ::std::stringify!($type).into()
            }

            fn group((): &()) -> ::std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> ::std::borrow::Cow<'_, str> {
                $version.into()
            }

            fn plural((): &()) -> ::std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &$crate::expansion::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut $crate::expansion::ObjectMeta {
                &mut self.metadata
            }
        }
    };
    (@scope Namespaced) => { $crate::expansion::kube::core::NamespaceResourceScope };
    (@scope Cluster) => { $crate::expansion::kube::core::ClusterResourceScope };
}

/// Field `apiVersion` of the kind `O`. It takes no memory: it is always that of the kind.
///
/// Decoding accepts any text. The server compares the fields of a request with the kind before that.
pub struct ApiVersion<O>(PhantomData<fn() -> O>);

/// Field `kind` of the kind `O`, as [`ApiVersion`].
pub struct Kind<O>(PhantomData<fn() -> O>);

trait Word {
    fn word() -> String;
}

impl<O: kube::Resource<DynamicType = ()>> Word for ApiVersion<O> {
    fn word() -> String {
        O::api_version(&()).into_owned()
    }
}

impl<O: kube::Resource<DynamicType = ()>> Word for Kind<O> {
    fn word() -> String {
        O::kind(&()).into_owned()
    }
}

macro_rules! word {
    ($type:ident) => {
        impl<O> Default for $type<O> {
            fn default() -> Self {
                Self(PhantomData)
            }
        }

        impl<O> Clone for $type<O> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<O> Copy for $type<O> {}

        impl<O> PartialEq for $type<O> {
            fn eq(&self, _: &Self) -> bool {
                true
            }
        }

        impl<O: kube::Resource<DynamicType = ()>> fmt::Debug for $type<O> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", Self::word())
            }
        }

        impl<O: kube::Resource<DynamicType = ()>> Serialize for $type<O> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&Self::word())
            }
        }

        impl<'de, O> Deserialize<'de> for $type<O> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer).map(|_| Self::default())
            }
        }

        impl<O> JsonSchema for $type<O> {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                String::json_schema(generator)
            }
        }
    };
}

word!(ApiVersion);
word!(Kind);
