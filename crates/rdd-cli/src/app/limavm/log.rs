//! `rdd limavm log INSTANCE`: prints the log of a VM's host agent.

use crate::{
    app::args::VmLog,
    commands::service::log,
    report::{Failure, Outcome},
    service::ControlPlane,
};

/// Prints the log of a VM's host agent. It needs no API, because the log may be wanted to find out why the service is down.
pub(super) fn run(plane: &ControlPlane<'_>, args: &VmLog) -> Outcome {
    if args.instance.contains('/') || args.instance.trim_matches('.').is_empty() {
        return Err(Failure::message(format!("{:?} is not a valid LimaVM name", args.instance)));
    }
    let name = if args.stdout { "ha.stdout.log" } else { "ha.stderr.log" };
    let path = plane.paths().lima_home.join(&args.instance).join(name);
    log::print(plane, &path, None, args.follow)
}

#[cfg(test)]
mod tests {
    use crate::testing::User;

    #[test]
    fn the_chosen_file_is_printed_and_a_missing_one_is_named() {
        let user = User::new();
        let folder = user.instance().paths.lima_home.join("rd");
        let ran = user.run("limavm log rd");
        assert_eq!((ran.code, ran.stdout.as_str()), (0, ""));
        assert_eq!(ran.messages(), [format!("Waiting for {} to appear...", folder.join("ha.stderr.log").display())]);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("ha.stderr.log"), "err\n").unwrap();
        std::fs::write(folder.join("ha.stdout.log"), "out\n").unwrap();
        assert_eq!(user.run("lima logs rd").stdout, "err\n");
        assert_eq!(user.run("limavm log -o rd").stdout, "out\n");
        for name in ["../x", "..", "."] {
            assert_eq!(user.run(&format!("limavm log {name}")).code, 1, "{name}");
        }
    }
}
