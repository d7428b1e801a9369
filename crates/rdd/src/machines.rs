//! Removes what an instance has outside its own folders while its daemon is stopped: its machines and its Docker
//! context.

use std::{fs, io};

use anyhow::Context as _;
use rdd_docker::context::DockerContext;
use rdd_driver::Drivers;
use rdd_instance::{Environment, Instance};
use rdd_stdx::clock::SystemClock;

/// Removes the Docker context, then stops and deletes every machine with a folder. This includes processes, devices and
/// packet rules that a killed daemon left. The caller removes the folders of machines that no driver recognizes.
pub(crate) fn remove_all(instance: &Instance, environment: &Environment) -> anyhow::Result<()> {
    // First, because a context that points to a removed engine would break the user's docker command.
    DockerContext::new(instance.docker_cli(environment)).remove_now()?;
    let names = names(instance).with_context(|| format!("list {}", instance.paths.lima_home.display()))?;
    if names.is_empty() {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    let drivers = Drivers::of_this_system(instance, environment, SystemClock::shared());
    runtime.block_on(async {
        for name in names {
            for driver in drivers.iter() {
                driver.delete(&name).await.with_context(|| format!("remove the machine {name:?}"))?;
            }
        }
        Ok(())
    })
}

fn names(instance: &Instance) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(&instance.paths.lima_home) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let names = entries.filter_map(Result::ok).filter_map(|entry| entry.file_name().into_string().ok());
    Ok(names.filter(|name| rdd_driver::check_name(name).is_ok()).collect())
}
