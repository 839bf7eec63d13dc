//! The memory limits of the manifests, and the memory of a process.

use std::fs;

use evacuation_e2e::root;
use k8s_openapi::{api::apps::v1::Deployment, apimachinery::pkg::api::resource::Quantity};

/// The memory limit in bytes of the one container of the Deployment in a file of the project.
pub(crate) fn memory_limit(file: &str) -> u64 {
    let text = fs::read_to_string(root().join(file)).unwrap();
    let documents = text.split("\n---").filter(|document| document.contains("kind: Deployment"));
    let deployments: Vec<Deployment> = documents.map(|text| serde_saphyr::from_str(text).unwrap()).collect();
    let [deployment] = &deployments[..] else { panic!("{file} has one Deployment") };
    let containers = &deployment.spec.template.spec.as_ref().unwrap().containers;
    let [container] = &containers[..] else { panic!("{file} has one container") };
    bytes(&container.resources.as_ref().unwrap().limits.as_ref().unwrap()["memory"])
}

fn bytes(quantity: &Quantity) -> u64 {
    let units = [("Mi", 1 << 20), ("Gi", 1 << 30)];
    let read = units.iter().find_map(|(unit, size)| Some((quantity.0.strip_suffix(unit)?, size)));
    let (number, size) = read.expect("a number of Mi or Gi");
    number.parse::<u64>().unwrap() * size
}

/// The most memory in bytes that a process has had since it started.
pub(crate) fn peak(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}
