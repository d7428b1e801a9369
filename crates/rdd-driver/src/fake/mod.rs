//! A driver in memory that does what a test tells it to, and remembers what it was asked.
//!
//! A [`World`] is the machine room. It outlives the drivers that work in it, as processes and files outlive a daemon:
//! a test that "restarts the daemon" drops the driver and takes another one from the same world.
//!
//! ```text
//! let world = World::new();
//! let driver = world.driver();                       // Arc<Fake>, an Arc<dyn Driver>
//! world.fail(Op::Create, Fault::halfway("no space left")).times(1);
//! let gate = world.hold(Op::Stop);                   // stops wait until the gate is dropped
//! world.boot(Boot::ByHand);                          // a started machine stays in Starting …
//! world.comes_up("rd", Health::GOOD);                // … until it is told
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
