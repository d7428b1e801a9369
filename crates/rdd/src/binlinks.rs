//! Links the product's programs into the instance's bin folder, so that `PATH` needs one stable entry.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf},
};

use rdd_stdx::file;

/// The kind of installation, derived from the path of the executable.
#[derive(Debug, PartialEq, Eq)]
enum Mode {
    /// Part of the desktop application: all programs in the same folder belong to the product.
    Bundled {
        /// The folder with the programs.
        programs: PathBuf,
    },
    /// Installed without the desktop application.
    Standalone,
}

/// Updates the links in `bin` for `executable`. In a standalone installation, working links and other files stay.
pub(crate) fn refresh(executable: &Path, bin: &Path, hard_links_only: bool) -> io::Result<()> {
    let link = |target: &Path, name: &OsStr| {
        if let Err(error) = link_to(target, &bin.join(name), hard_links_only) {
            tracing::warn!(%error, name = %name.display(), "could not link a program");
        }
    };
    match mode_of(executable) {
        Mode::Bundled { programs } => {
            // List first: if that fails, the old links still exist.
            let programs = programs_in(&programs)?;
            file::remove_dir_if_present(bin).map_err(io::Error::other)?;
            file::create_dir_private(bin).map_err(io::Error::other)?;
            for program in &programs {
                link(program, program.file_name().unwrap_or_default());
            }
            // rdd acts as kubectl when it is called by that name.
            link(executable, &program_name("kubectl"));
        }
        Mode::Standalone => {
            file::create_dir_private(bin).map_err(io::Error::other)?;
            remove_dangling_links(bin)?;
            for name in [program_name("rdd"), program_name("kubectl")] {
                if fs::symlink_metadata(bin.join(&name)).is_err() {
                    link(executable, &name);
                }
            }
        }
    }
    Ok(())
}

fn mode_of(executable: &Path) -> Mode {
    let ends = if cfg!(windows) {
        r"\resources\windows\bin\rdd.exe"
    } else if cfg!(target_os = "macos") {
        "/Resources/darwin/bin/rdd"
    } else {
        "/resources/linux/bin/rdd"
    };
    match executable.parent() {
        Some(folder) if executable.to_string_lossy().ends_with(ends) => Mode::Bundled { programs: folder.to_owned() },
        _ => Mode::Standalone,
    }
}

fn program_name(name: &str) -> OsString {
    format!("{name}{}", std::env::consts::EXE_SUFFIX).into()
}

fn programs_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut programs = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            programs.push(entry.path());
        }
    }
    Ok(programs)
}

fn remove_dangling_links(bin: &Path) -> io::Result<()> {
    for entry in fs::read_dir(bin)? {
        let entry = entry?;
        if entry.file_type()?.is_symlink() && !entry.path().exists() {
            file::remove_if_present(&entry.path()).map_err(io::Error::other)?;
        }
    }
    Ok(())
}

fn link_to(target: &Path, link: &Path, hard_links_only: bool) -> io::Result<()> {
    #[cfg(unix)]
    if !hard_links_only && std::os::unix::fs::symlink(target, link).is_ok() {
        return Ok(());
    }
    // For file systems and users without symbolic links.
    fs::hard_link(target, link)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Case {
        _dir: tempfile::TempDir,
        executable: PathBuf,
        bin: PathBuf,
    }

    fn case(place: &str) -> Case {
        let dir = tempfile::tempdir().unwrap();
        let executable = dir.path().join(place);
        fs::create_dir_all(executable.parent().unwrap()).unwrap();
        fs::write(&executable, "rdd").unwrap();
        let bin = dir.path().join("bin");
        Case { _dir: dir, executable, bin }
    }

    fn names(bin: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(bin).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_standalone_program_links_itself_and_kubectl_and_repeats_without_change() {
        let case = case("opt/rdd");
        for _ in 0..2 {
            refresh(&case.executable, &case.bin, false).unwrap();
            assert_eq!(names(&case.bin), ["kubectl", "rdd"]);
            assert_eq!(fs::read_link(case.bin.join("kubectl")).unwrap(), case.executable);
        }
    }

    #[test]
    fn what_the_user_put_there_stays_and_dangling_links_go() {
        let case = case("opt/rdd");
        fs::create_dir(&case.bin).unwrap();
        fs::write(case.bin.join("kubectl"), "the user's own").unwrap();
        std::os::unix::fs::symlink("/nonexistent", case.bin.join("rdd")).unwrap();
        std::os::unix::fs::symlink("/nonexistent", case.bin.join("old")).unwrap();
        refresh(&case.executable, &case.bin, false).unwrap();
        assert_eq!(names(&case.bin), ["kubectl", "rdd"]);
        assert_eq!(fs::read_to_string(case.bin.join("kubectl")).unwrap(), "the user's own");
        assert_eq!(fs::read_link(case.bin.join("rdd")).unwrap(), case.executable);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_bundled_program_links_all_its_siblings_and_drops_what_is_no_longer_shipped() {
        let case = case("app/resources/linux/bin/rdd");
        fs::write(case.executable.with_file_name("docker"), "").unwrap();
        fs::create_dir(&case.bin).unwrap();
        fs::write(case.bin.join("gone"), "").unwrap();
        refresh(&case.executable, &case.bin, false).unwrap();
        assert_eq!(names(&case.bin), ["docker", "kubectl", "rdd"]);
    }

    #[test]
    fn hard_links_on_request() {
        let case = case("opt/rdd");
        refresh(&case.executable, &case.bin, true).unwrap();
        assert!(!fs::symlink_metadata(case.bin.join("rdd")).unwrap().file_type().is_symlink());
    }
}
