//! Faults of the controller and of the built-in responders, on a platform that no other scene uses.

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

    /// Kills the process of the built-in responders.
    pub fn kill_built_in_responders(&self) {
        self.platform().built_in_responders().unwrap().kill().unwrap();
    }

    /// Starts the built-in responders again, which lead at once because their lease is free.
    pub async fn start_built_in_responders(&self) {
        self.platform().start_built_in_responders().await.unwrap();
    }
}
