//! `kubectl explain`, `api-resources`, `auth` and `get --raw`.

use super::row::{Row, fails, ok, soon};

/// The kinds of this project.
const OURS: &[&str] = &["evacuationresponders", "nodeevacuations", "nodeevacuationrules", "evacuations"];

pub(super) const ROWS: &[Row] = &[
    // kube-apiserver fetches the documents of other servers in its own time.
    soon(
        "kubectl explain $PLURAL",
        &["GROUP:  ", "KIND:  ", "VERSION:  ", "DESCRIPTION:", "FIELDS:", "spec"],
    ),
    ok("kubectl explain $SINGULAR.spec", &["FIELD: spec <", "FIELDS:"]),
    ok("kubectl explain $PLURAL --recursive", &["  ownerReferences\t<[]OwnerReference>\n", "  spec\t<"]),
    ok(
        "kubectl explain $PLURAL --api-version=$GROUP/v1alpha1",
        &["KIND:       $KIND\n", "VERSION:    v1alpha1\n"],
    ),
    fails("kubectl explain $PLURAL --api-version=$GROUP/v9", &["error"]),
    fails("kubectl explain $PLURAL.spec.colour", &["error: field \"colour\" does not exist"]),
    soon("kubectl explain $PLURAL --output=plaintext-openapiv2", &["KIND:     $KIND\n", "FIELDS:"]),
    ok("kubectl explain $PLURAL.metadata.finalizers", &["<[]string>"]),
    ok("kubectl explain evacuationresponder.spec.priority", &["FIELD: priority <integer>"])
        .only(&["evacuationresponders"]),
    ok("kubectl explain evacuation.spec.requesters.onRefusal", &["ENUM:", "GiveUp", "Override", "Wait"])
        .only(&["evacuations"]),
    ok("kubectl explain nodeevac.status.conditions", &["<[]", "lastTransitionTime", "-required-"])
        .only(&["nodeevacuations"]),
    ok("kubectl explain nodeevacrule.spec.marks", &["FIELD: marks <[]", "taint"])
        .only(&["nodeevacuationrules"]),
    // Discovery.
    ok("kubectl api-versions", &["$GROUP/v1alpha1\n"]),
    ok("kubectl api-resources --api-group=$GROUP", &["NAME ", "$PLURAL ", "$GROUP/v1alpha1", " $KIND\n"]),
    ok("kubectl api-resources --api-group=$GROUP -o name --sort-by=name", &["$PLURAL.$GROUP\n"]),
    ok("kubectl api-resources --verbs=list,deletecollection -o name", &["$PLURAL.$GROUP\n"]),
    ok(
        "kubectl api-resources --api-group=$GROUP -o wide",
        &["create,delete,deletecollection,get,list,patch,update,watch"],
    )
    .only(&["evacuations"]),
    ok(
        "kubectl api-resources --api-group=$GROUP -o wide",
        &["delete,deletecollection,get,list,patch,create,update,watch"],
    )
    .only(&["widgets"]),
    ok("kubectl api-resources --api-group=$GROUP --namespaced=false -o name", &["nodeevacuations.$GROUP\n"])
        .lacks(&["evacuationresponders"])
        .only(OURS),
    ok("kubectl get --raw /apis/$GROUP", &["\"kind\":\"APIGroup\"", "\"groupVersion\":\"$GROUP/v1alpha1\""]),
    ok("kubectl get --raw /apis/$GROUP/v1alpha1", &["\"kind\":\"APIResourceList\"", "\"name\":\"$PLURAL\""]),
    ok("kubectl get --raw /openapi/v3/apis/$GROUP/v1alpha1", &["\"openapi\":\"3.0", "$COLLECTION"])
        .only(&["nodeevacuations", "nodeevacuationrules"]),
    ok(
        "kubectl __complete get $SINGULAR ''",
        &["Completion ended with directive: ShellCompDirectiveNoFileComp"],
    ),
    // Rights.
    ok("kubectl auth can-i create $PLURAL.$GROUP", &["yes\n"]),
    ok("kubectl auth can-i '*' $PLURAL.$GROUP -A", &["yes\n"]),
    ok("kubectl auth can-i update $PLURAL.$GROUP --subresource=status -q", &[]).lacks(&["yes"]),
    fails("kubectl auth can-i delete $PLURAL.$GROUP/$NAME --as=stranger", &["no\n"]),
    ok("kubectl auth can-i --list --as=stranger", &["selfsubjectaccessreviews.authorization.k8s.io"]),
    fails(
        "kubectl get $PLURAL --as=stranger",
        &["Error from server (Forbidden): $PLURAL.$GROUP is forbidden: User \"stranger\" cannot list \
               resource \
           \"$PLURAL\" in API group \"$GROUP\""],
    ),
    ok("kubectl auth whoami", &["Username", " admin\n"]),
];
