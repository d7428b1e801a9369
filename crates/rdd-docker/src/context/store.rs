//! Docker's context store: locating and reading contexts, publishing and withdrawing ours.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rdd_stdx::{file, owned};
use ring::digest;
use serde::{Deserialize, Serialize};

/// The maximum size of a context file that is read.
const BYTES_MAX: u64 = 1 << 20;
/// The name of the endpoint that docker's own commands use.
const ENDPOINT: &str = "docker";

/// The content of a context's `meta.json`, as docker writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Description<'a> {
    name: &'a str,
    metadata: Metadata,
    endpoints: Endpoints<'a>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Metadata {
    description: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Endpoints<'a> {
    docker: Endpoint<'a>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Endpoint<'a> {
    host: &'a str,
    #[serde(rename = "SkipTLSVerify")]
    skip_tls_verify: bool,
}

/// The result of reading a context from the store.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// The store has no such context.
    Missing,
    /// The context's address.
    Host(String),
    /// The context could not be read, for this reason.
    Unclear(String),
}

/// The folder of the context with this name: the SHA-256 hash of the name.
pub(super) fn folder(config_folder: &Path, name: &str) -> PathBuf {
    let digest = digest::digest(&digest::SHA256, name.as_bytes());
    let id: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    config_folder.join("contexts").join("meta").join(id)
}

/// The `meta.json` of the context with this name.
pub(super) fn file(config_folder: &Path, name: &str) -> PathBuf {
    folder(config_folder, name).join("meta.json")
}

/// Refuses docker's folder, or the store in it, if another user owns one of them: that user could replace the files and redirect
/// this user's docker. Missing folders are accepted.
pub(super) fn check_owner(config_folder: &Path) -> Result<(), file::Error> {
    let contexts = config_folder.join("contexts");
    let meta = contexts.join("meta");
    for folder in [config_folder, &contexts, &meta] {
        match owned::check_home(folder) {
            Err(source) if owned::is_refusal(&source) => {
                return Err(file::Error { action: "use", path: folder.to_owned(), source });
            }
            // Other errors recur when the caller uses the folder, which reports them with more context.
            _ => {}
        }
    }
    Ok(())
}

/// Writes the context with this name, unless it is already correct.
pub(super) fn publish(config_folder: &Path, name: &str, host: &str) -> Result<(), file::Error> {
    check_owner(config_folder)?;
    let text = description(name, host);
    let path = file(config_folder, name);
    if owned::read(&path).is_ok_and(|found| found == text) {
        return Ok(());
    }
    file::create_dir_private(&folder(config_folder, name))?;
    file::write_atomic(&path, &text, file::PRIVATE)
}

/// Removes the context with this name, and the folders around it if they are then empty.
pub(super) fn withdraw(config_folder: &Path, name: &str) -> Result<(), file::Error> {
    let folder = folder(config_folder, name);
    file::remove_dir_if_present(&folder)?;
    // These folders belong to docker; removing a folder that is not empty fails, as it should.
    for folder in folder.ancestors().skip(1).take(3) {
        if fs::remove_dir(folder).is_err() {
            break;
        }
    }
    Ok(())
}

/// Reads the address of the context with this name.
pub(super) fn read(config_folder: &Path, name: &str) -> Named {
    let path = file(config_folder, name);
    let unclear = |why: String| Named::Unclear(format!("{}: {why}", path.display()));
    match fs::metadata(&path) {
        Ok(meta) if meta.is_file() && meta.len() <= BYTES_MAX => {}
        Ok(_) => return unclear("it is not a file that docker wrote".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return missing(config_folder, &path),
        Err(error) => return unclear(error.to_string()),
    }
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) => return unclear(error.to_string()),
    };
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Description {
        #[serde(default)]
        endpoints: serde_json::Map<String, serde_json::Value>,
    }
    let described: Description = match serde_json::from_slice(&text) {
        Ok(described) => described,
        Err(error) => return unclear(error.to_string()),
    };
    match described.endpoints.get(ENDPOINT).and_then(|endpoint| endpoint.get("Host")?.as_str()) {
        Some(host) if !host.is_empty() => Named::Host(host.to_owned()),
        _ => unclear("it names no address".to_owned()),
    }
}

/// Distinguishes a missing context from an unreadable store: only a readable store proves that the context is missing.
fn missing(config_folder: &Path, path: &Path) -> Named {
    let store = config_folder.join("contexts").join("meta");
    match fs::read_dir(&store) {
        Ok(_) => Named::Missing,
        Err(error) if error.kind() == io::ErrorKind::NotFound && fs::read_dir(config_folder).is_ok() => Named::Missing,
        Err(error) => Named::Unclear(format!("{}: {error}", path.display())),
    }
}

fn description(name: &str, host: &str) -> Vec<u8> {
    let description = Description {
        name,
        metadata: Metadata { description: format!("Rancher Desktop {name}") },
        endpoints: Endpoints { docker: Endpoint { host, skip_tls_verify: false } },
    };
    serde_json::to_vec(&description).expect("texts and a flag are JSON")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_context_is_where_and_what_docker_expects_and_goes_without_a_trace() {
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join(".docker");
        publish(&config, "rancher-desktop-2", "unix:///h/.rd2/docker.sock").unwrap();
        let path = folder(&config, "rancher-desktop-2").join("meta.json");
        let expected = r#"{"Name":"rancher-desktop-2","Metadata":{"Description":"Rancher Desktop rancher-desktop-2"},"Endpoints":{"docker":{"Host":"unix:///h/.rd2/docker.sock","SkipTLSVerify":false}}}"#;
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read(&config, "rancher-desktop-2"), Named::Host("unix:///h/.rd2/docker.sock".to_owned()));
        assert_eq!(read(&config, "rancher-desktop-3"), Named::Missing);
        withdraw(&config, "rancher-desktop-2").unwrap();
        assert!(!config.exists());
        withdraw(&config, "rancher-desktop-2").unwrap();
    }

    #[test]
    fn the_folder_of_a_context_is_the_digest_of_its_name() {
        let folder = folder(Path::new("/d"), "abc");
        let expected = "/d/contexts/meta/ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(folder, Path::new(expected));
    }

    #[test]
    fn what_is_there_already_is_not_written_again_and_what_others_have_stays() {
        let config = tempfile::tempdir().unwrap();
        publish(config.path(), "ours", "unix:///a").unwrap();
        let before = fs::metadata(file(config.path(), "ours")).unwrap().modified().unwrap();
        publish(config.path(), "ours", "unix:///a").unwrap();
        assert_eq!(fs::metadata(file(config.path(), "ours")).unwrap().modified().unwrap(), before);
        publish(config.path(), "theirs", "unix:///b").unwrap();
        publish(config.path(), "ours", "unix:///c").unwrap();
        assert_eq!(read(config.path(), "ours"), Named::Host("unix:///c".to_owned()));
        withdraw(config.path(), "ours").unwrap();
        assert_eq!(read(config.path(), "theirs"), Named::Host("unix:///b".to_owned()));
    }

    #[test]
    fn what_cannot_be_understood_is_unclear_and_not_missing() {
        let config = tempfile::tempdir().unwrap();
        for text in ["", "{", "[]", "{}", r#"{"Endpoints":{}}"#, r#"{"Endpoints":{"docker":{"Host":""}}}"#] {
            fs::create_dir_all(folder(config.path(), "x")).unwrap();
            fs::write(file(config.path(), "x"), text).unwrap();
            assert!(matches!(read(config.path(), "x"), Named::Unclear(_)), "{text}");
        }
        fs::remove_file(file(config.path(), "x")).unwrap();
        fs::create_dir(file(config.path(), "x")).unwrap();
        assert!(matches!(read(config.path(), "x"), Named::Unclear(_)), "a folder");
        // A store that is no folder cannot be looked into.
        let other = tempfile::tempdir().unwrap();
        fs::write(other.path().join("contexts"), "").unwrap();
        assert!(matches!(read(other.path(), "x"), Named::Unclear(_)), "a file for a folder");
    }
}
