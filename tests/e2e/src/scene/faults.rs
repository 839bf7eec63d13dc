//! Faults of the controller, on a platform that no other scene uses.

use super::Scene;

impl Scene {
    /// Kills the first controller.
    pub fn kill_controller(&self) {
        self.platform().controllers()[0].kill().unwrap();
    }

    /// Starts the first controller again, which leads at once because the lease is free.
    pub async fn start_controller(&self) {
        self.platform().free_lease().await.unwrap();
        self.platform().controllers()[0].start().unwrap();
    }
}
