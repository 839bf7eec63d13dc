use std::path::PathBuf;
use std::process::Command;

use rcgen::KeyPair;

use crate::access::{Access, Credentials};
use crate::builder::Builder;
use crate::component::Readiness;
use crate::pki::{cannot, write};
use crate::{Binaries, Component, Etcd, Folder, IdentityFiles, Pki, Process, Program, Result, free_port};

/// The common name of the certificate with which kube-apiserver calls aggregated servers.
pub(crate) const FRONT_PROXY_CLIENT: &str = "front-proxy-client";

/// The authorities and files that the programs share.
pub(crate) struct Certificates {
    pub(crate) folder: PathBuf,
    /// Issues serving certificates and those of clients.
    pub(crate) cluster: Pki,
    pub(crate) cluster_ca: PathBuf,
    pub(crate) front_proxy: Pki,
    pub(crate) front_proxy_ca: PathBuf,
    pub(crate) front_proxy_client: IdentityFiles,
    pub(crate) serving: IdentityFiles,
    pub(crate) service_account_key: PathBuf,
    service_account_public: PathBuf,
}

impl Certificates {
    pub(crate) fn make(folder: PathBuf) -> Result<Self> {
        let cluster = Pki::new("controlplane-ca")?;
        let cluster_ca = folder.join("ca.crt");
        cluster.write_ca(&cluster_ca)?;
        let serving = cluster
            .serving(&[
                "localhost",
                "127.0.0.1",
                "kubernetes",
                "kubernetes.default",
                "kubernetes.default.svc",
            ])?
            .write(&folder, "serving")?;

        // An authority of its own: who could sign with the cluster's could pose as any user.
        let front_proxy = Pki::new("front-proxy-ca")?;
        let front_proxy_ca = folder.join("front-proxy-ca.crt");
        front_proxy.write_ca(&front_proxy_ca)?;
        let front_proxy_client =
            front_proxy.client(FRONT_PROXY_CLIENT, None)?.write(&folder, FRONT_PROXY_CLIENT)?;

        let key = KeyPair::generate().map_err(cannot("service accounts"))?;
        let service_account_key = folder.join("service-account.key");
        let service_account_public = folder.join("service-account.pub");
        write(&service_account_key, &key.serialize_pem())?;
        write(&service_account_public, &key.public_key_pem())?;
        Ok(Self {
            folder,
            cluster,
            cluster_ca,
            front_proxy,
            front_proxy_ca,
            front_proxy_client,
            serving,
            service_account_key,
            service_account_public,
        })
    }
}

/// A kube-apiserver that is not ready yet.
pub(crate) struct ApiServer {
    pub(crate) component: Component,
    pub(crate) access: Access,
    pub(crate) config: kube::Config,
    pub(crate) audit_log: PathBuf,
}

impl ApiServer {
    pub(crate) async fn spawn(
        binaries: &Binaries,
        folder: &Folder,
        certificates: &Certificates,
        etcd: &Etcd,
        options: &Builder,
    ) -> Result<Self> {
        let logs = folder.subfolder("logs")?;
        let audit_log = logs.join("audit.json");
        let audit_policy = folder.path().join("audit-policy.yaml");
        write(&audit_policy, include_str!("files/audit-policy.yaml"))?;
        let port = free_port()?;

        let mut command = Command::new(binaries.path(Program::KubeApiserver));
        command
            .args(["--bind-address", "127.0.0.1", "--secure-port", &port.to_string()])
            // Nobody reaches the API server by its Service, and its endpoints may not be loopback addresses.
            .args(["--advertise-address", "127.0.0.1", "--endpoint-reconciler-type", "none"])
            .args(["--service-cluster-ip-range", "10.96.0.0/16"])
            .args(["--etcd-servers", etcd.endpoint()])
            .args(["--authorization-mode", "RBAC", "--allow-privileged=true", "--profiling=false"])
            .arg("--tls-cert-file")
            .arg(&certificates.serving.certificate)
            .arg("--tls-private-key-file")
            .arg(&certificates.serving.key)
            .arg("--client-ca-file")
            .arg(&certificates.cluster_ca)
            .args(["--service-account-issuer", "https://kubernetes.default.svc"])
            .arg("--service-account-signing-key-file")
            .arg(&certificates.service_account_key)
            .arg("--service-account-key-file")
            .arg(&certificates.service_account_public)
            .arg("--requestheader-client-ca-file")
            .arg(&certificates.front_proxy_ca)
            .args(["--requestheader-allowed-names", FRONT_PROXY_CLIENT])
            .args(["--requestheader-username-headers", "X-Remote-User"])
            .args(["--requestheader-uid-headers", "X-Remote-Uid"])
            .args(["--requestheader-group-headers", "X-Remote-Group"])
            .args(["--requestheader-extra-headers-prefix", "X-Remote-Extra-"])
            .arg("--proxy-client-cert-file")
            .arg(&certificates.front_proxy_client.certificate)
            .arg("--proxy-client-key-file")
            .arg(&certificates.front_proxy_client.key)
            .arg("--audit-policy-file")
            .arg(&audit_policy)
            .arg("--audit-log-path")
            .arg(&audit_log)
            // One file, however long the test (in MB); written before the answer is sent.
            .args(["--audit-log-maxsize", "1000000", "--audit-log-mode", "blocking"])
            .args(&options.apiserver_args);
        if let Some(gates) = options.feature_gate_argument() {
            command.arg(gates);
        }
        if !options.runtime_config.is_empty() {
            command.args(["--runtime-config", &options.runtime_config.join(",")]);
        }
        let process = Process::spawn("kube-apiserver", command, &logs)?;

        let access = Access::new(port, certificates.cluster.ca_pem());
        let admin = certificates.cluster.client("admin", Some("system:masters"))?;
        let credentials = Credentials::Certificate(&admin);
        access.write(&folder.path().join("kubeconfig"), "admin", &credentials)?;
        let config = access.config("admin", &credentials).await?;
        let component = Component::new(process, Readiness::ApiServer(Box::new(config.clone())));
        Ok(Self { component, access, config, audit_log })
    }
}
