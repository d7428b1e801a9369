//! What an instance whose daemon does not run has outside of its own folders: its machines, and its docker context.

use std::{fs, io};

use anyhow::Context as _;
use rdd_docker::context::DockerContext;
use rdd_driver::Drivers;
use rdd_instance::{Environment, Instance};
use rdd_stdx::clock::SystemClock;

/// Removes the docker context, then ends and removes every machine that has a folder: what a killed daemon left running, with the devices and packet rules that
/// are in no folder. What no driver knows is left to whoever removes the folders.
pub(crate) fn remove_all(instance: &Instance, environment: &Environment) -> anyhow::Result<()> {
    // First: a context that leads nowhere is the worst that could be left.
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
