//! The common part of every kind of this API: `apiVersion`, `kind` and kube's `Resource`.

/// Implements kube's `Resource` and the defaults of `apiVersion` and `kind` for a kind of this API.
macro_rules! kind {
    ($type:ident, $kind:literal, $plural:literal, $scope:ident) => {
        impl $type {
            /// The kind's name, as in an object's `kind`.
            pub const KIND: &'static str = $kind;
            /// The resource's name, as in a URL.
            pub const PLURAL: &'static str = $plural;

            fn default_kind() -> String {
                $kind.to_owned()
            }
        }

        impl kube_core::Resource for $type {
            type DynamicType = ();
            type Scope = kube_core::$scope;

            fn kind(&(): &()) -> std::borrow::Cow<'_, str> {
                $kind.into()
            }

            fn group(&(): &()) -> std::borrow::Cow<'_, str> {
                $crate::GROUP.into()
            }

            fn version(&(): &()) -> std::borrow::Cow<'_, str> {
                $crate::VERSION.into()
            }

            fn plural(&(): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

pub(crate) use kind;
