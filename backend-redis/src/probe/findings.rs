//! What an operator should change.

use std::collections::HashMap;
use std::time::Duration;

use distlock_core::Warning;

use super::report::Report;
use crate::connection::Node;

/// What is wrong with one server, and how to put it right.
#[derive(Debug)]
pub(super) struct Findings {
    node: String,
    found: Vec<(String, String)>,
}

/// The server's clock and this machine's, in microseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    /// This machine's, before the server was asked.
    pub(super) before: u64,
    pub(super) server: u64,
    /// How long the answer took.
    pub(super) took: Duration,
}

impl Findings {
    pub(super) fn of(node: &Node) -> Self {
        let node = if node.0.is_empty() { String::new() } else { format!("{}: ", node.0) };
        Self { node, found: Vec::new() }
    }

    pub(super) fn take(self) -> Vec<(String, String)> {
        self.found
    }

    /// The server did not report.
    pub(super) fn without_report(&mut self) {
        self.add(
            "the server does not say how it is set up, so eviction, persistence and replication are not checked",
            "grant +info to the user of the locks, or see yourself that maxmemory-policy is noeviction",
        );
    }

    /// The node did not answer.
    pub(super) fn unreachable(&mut self) {
        self.add(
            "the node can't be reached: locks whose slots it has are served by nobody until it is back or replaced",
            "see that it runs and that the network lets through; with cluster-require-full-coverage yes, the other nodes serve nobody either",
        );
    }

    /// Memory, persistence, replication.
    pub(super) fn look_at(&mut self, report: &Report, settings: &HashMap<&'static str, String>) {
        if let Some(policy) = report.evicts() {
            self.add(
                format!("the server throws keys away when its memory is full (maxmemory-policy {policy}), locks among them"),
                "set maxmemory-policy to noeviction",
            );
        }
        if report.is("loading", "1") {
            self.add(
                "the server still loads its data and serves nobody",
                "wait until it has, and see its log",
            );
        }
        self.look_at_persistence(report, settings);
        self.look_at_replication(report, settings);
        if settings.is_empty() {
            self.add(
                "the server does not tell its settings, so appendfsync, save and min-replicas-to-write are not checked",
                "grant +config|get to the user of the locks; with a managed server, look at its parameters",
            );
        }
    }

    fn look_at_persistence(&mut self, report: &Report, settings: &HashMap<&'static str, String>) {
        let keeps_log = report.is("aof_enabled", "1");
        if !keeps_log && settings.get("save").is_some_and(String::is_empty) {
            self.add(
                "the server keeps nothing on disk: a restart frees every lock",
                "set appendonly yes, with appendfsync always if no lock may be lost",
            );
        } else if !keeps_log && report.field("aof_enabled").is_some() {
            self.add(
                "the server keeps snapshots alone: a restart frees the locks taken since the last one, and brings back others given up since",
                "set appendonly yes, with appendfsync always if no lock may be lost",
            );
        }
        match settings.get("appendfsync").map(String::as_str) {
            Some("everysec") if keeps_log => self.add(
                "a crash of the server's machine loses the last second's locks (appendfsync everysec)",
                "set appendfsync always, or let the resource check tokens",
            ),
            Some("no") if keeps_log => self.add(
                "a crash of the server's machine loses the locks of some thirty seconds (appendfsync no)",
                "set appendfsync always, or let the resource check tokens",
            ),
            _ => {}
        }
        if report.is("aof_last_write_status", "err") || report.is("rdb_last_bgsave_status", "err") {
            self.add(
                "the server can't save to its disk, and takes no writes if it is set up so",
                "see its log and the room on its disk",
            );
        }
    }

    fn look_at_replication(&mut self, report: &Report, settings: &HashMap<&'static str, String>) {
        if report.is("role", "slave") {
            self.add(
                "the server is a replica, which can't grant locks",
                "connect to its master, or through Sentinel so that failovers are followed",
            );
            return;
        }
        if report.field("connected_slaves").is_some_and(|replicas| replicas != "0") {
            self.add(
                "replicas follow this server: one that takes over may not have heard of the latest locks",
                "let the resource check tokens; wait_replicas makes such a failover rarer, and a store that agrees before it grants rules it out",
            );
            if settings.get("min-replicas-to-write").map(String::as_str) == Some("0") {
                self.add(
                    "cut off from its replicas, the server goes on granting while one of them takes over",
                    "set min-replicas-to-write to 1 and min-replicas-max-lag to a few seconds",
                );
            }
        }
    }

    /// What a node of a Cluster says about the whole.
    pub(super) fn look_at_cluster(&mut self, state: &Option<Report>) {
        match state {
            Some(state) if state.is("cluster_state", "ok") => {}
            Some(state) => {
                let state = state.field("cluster_state").unwrap_or("not known");
                self.add(
                    format!("the Cluster's state is {state}: some keys are served by nobody"),
                    "see CLUSTER INFO and CLUSTER NODES; bring back the nodes that are down",
                );
            }
            None => {
                self.add("the Cluster's state can't be read", "grant +cluster|info to the user of the locks")
            }
        }
    }

    /// The server's clock against this machine's. No lease depends on their difference.
    pub(super) fn look_at_clocks(&mut self, clocks: Clocks) {
        let [server, before] = [clocks.server, clocks.before].map(Duration::from_micros);
        if let Some(Warning { what, fix, .. }) = Warning::of_clocks(server, before, clocks.took) {
            self.add(what, &fix);
        }
    }

    fn add(&mut self, what: impl AsRef<str>, fix: &str) {
        self.found.push((format!("{}{}", self.node, what.as_ref()), fix.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_named_where_there_are_several() {
        let mut findings = Findings::of(&Node("h:1".to_owned()));
        findings.without_report();
        assert!(findings.take()[0].0.starts_with("h:1: "));
    }
}
