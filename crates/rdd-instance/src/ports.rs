//! The ports that an instance tries first. It publishes the ports that it actually bound, which may be others.

/// Loopback ports, by purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    /// HTTPS of the API server.
    pub api: u16,
    /// Health checks of the embedded controller manager.
    pub embedded_health: u16,
    /// Health checks of an external controller manager.
    pub external_health: u16,
    /// Metrics of an external controller manager.
    pub external_metrics: u16,
    /// Webhooks of a controller manager.
    pub webhook: u16,
    /// Kubernetes inside the VM, as seen from the host.
    pub kubernetes: u16,
}

impl Ports {
    /// The ports of the instance with this index.
    pub const fn of(index: u16) -> Self {
        Self {
            api: 6443 + index,
            embedded_health: 8083 + 4 * index,
            external_health: 8081 + 4 * index,
            external_metrics: 8080 + 4 * index,
            webhook: 9443 + index,
            kubernetes: 7441 + index,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_follow_the_index() {
        let expected = Ports {
            api: 6445,
            embedded_health: 8091,
            external_health: 8089,
            external_metrics: 8088,
            webhook: 9445,
            kubernetes: 7443,
        };
        assert_eq!(Ports::of(2), expected);
        assert_eq!(Ports::of(199).external_health, 8877, "the largest index stays far from the ephemeral range");
    }
}
