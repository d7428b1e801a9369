//! Checks that a machine's folder belongs to the effective user, before the driver runs anything from it.

use std::{io, path::Path};

use rdd_stdx::owned::TrustedFolder;

use crate::Error;

/// Refuses a machine whose folder, or one of these files in it, belongs to another user or is a symbolic link.
///
/// `dockerd` runs as root with the options in `daemon.json`: a user who can write that file controls the host.
pub(crate) fn check_machine_folder(folder: &Path, files: &[&str]) -> Result<(), Error> {
    check_files(folder, files).map_err(Error::at("use", folder))
}

fn check_files(folder: &Path, files: &[&str]) -> io::Result<()> {
    let (Some(machines), Some(name)) = (folder.parent(), folder.file_name()) else { return Ok(()) };
    let Some(machine) = TrustedFolder::open(machines)?.enter(name)? else { return Ok(()) };
    files.iter().try_for_each(|file| machine.check_file(file))
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{chown, symlink},
    };

    use super::*;

    fn refused(folder: &Path) -> String {
        let error = check_machine_folder(folder, &["daemon.json"]).unwrap_err();
        rdd_stdx::chain::Chain(&error).to_string()
    }

    // Finding A-1
    #[test]
    fn a_machine_folder_of_another_user_is_refused() {
        if !rdd_testkit::capability::require("root") {
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("rd");
        fs::create_dir(&folder).unwrap();
        check_machine_folder(&folder, &["daemon.json"]).unwrap();
        let config = folder.join("daemon.json");
        fs::write(&config, "{}").unwrap();
        check_machine_folder(&folder, &["daemon.json"]).unwrap();
        chown(&config, Some(4_242), None).unwrap();
        let said = refused(&folder);
        assert!(said.contains(&format!("refusing to use {}: it belongs to user uid 4242", config.display())), "{said}");
        assert!(said.ends_with("set HOME to a folder of root's"), "{said}");
        fs::remove_file(&config).unwrap();
        symlink("/etc/hostname", &config).unwrap();
        let said = refused(&folder);
        assert!(said.contains("daemon.json: it is a symbolic link; remove it"), "{said}");
        fs::remove_file(&config).unwrap();
        chown(&folder, Some(4_242), None).unwrap();
        assert!(refused(&folder).contains("it belongs to user uid 4242"));
        let link = home.path().join("link");
        symlink(home.path(), &link).unwrap();
        assert!(refused(&link).contains("link: it is a symbolic link"));
    }
}
