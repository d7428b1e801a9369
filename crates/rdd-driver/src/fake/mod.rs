//! A driver in memory, with planned faults and a record of all calls, for tests.
//!
//! A [`World`] stands for the processes and files of a host. It outlives its drivers, as these outlive a daemon: to
//! restart the daemon, a test drops the driver and takes another one from the same world.
//!
//! ```text
//! let world = World::new();
//! let driver = world.driver();                       // Arc<Fake>, an Arc<dyn Driver>
//! world.fail(Op::Create, Fault::halfway("no space left")).times(1);
//! let gate = world.hold(Op::Stop);                   // stops wait until the gate is dropped
//! world.boot(Boot::ByHand);                          // a started machine stays in Starting …
//! world.comes_up("rd", Health::GOOD);                // … until this call
//! world.dies("rd", "kernel panic");
//! assert_eq!(world.calls_of("rd"), ["create", "start"]);
//! ```

mod cluster;
mod driver;
mod script;
#[cfg(test)]
mod tests;
mod world;

pub use driver::Fake;
pub use script::{Fault, Gate, Op, Planned};
pub use world::{Boot, Call, World};
