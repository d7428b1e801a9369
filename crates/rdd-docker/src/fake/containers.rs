//! The fake engine's operations on containers.

use std::collections::BTreeMap;

use super::{
    program::{self, Output},
    refusal::{Done, Refusal},
    world::{Container, Line, Mount, State, Status, World, is_name},
};

/// The options of a new container.
#[derive(Debug, Clone, Default)]
pub struct NewContainer {
    /// The name; generated if empty.
    pub name: String,
    /// The image.
    pub image: String,
    /// The program and its arguments; sleeps if empty.
    pub command: Vec<String>,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The ports, such as `80/tcp`, with addresses and ports of the host.
    pub ports: BTreeMap<String, Vec<(String, String)>>,
    /// Whether it has a TTY.
    pub tty: bool,
    /// Whether it is removed when it exits.
    pub auto_remove: bool,
    /// The volumes with their mount points; an empty volume name is generated.
    pub volumes: Vec<(String, String)>,
}

impl NewContainer {
    /// A named container that sleeps when started.
    pub fn sleeper(name: &str, image: &str) -> Self {
        let command = ["sleep", "600"].map(str::to_owned).to_vec();
        Self { name: name.to_owned(), image: image.to_owned(), command, ..Self::default() }
    }
}

impl World {
    /// Finds a container by ID, name, or prefix of the ID; returns its ID.
    pub fn find_container(&self, reference: &str) -> Result<String, Refusal> {
        let name = reference.strip_prefix('/').unwrap_or(reference);
        if self.containers.contains_key(name) {
            return Ok(name.to_owned());
        }
        if let Some(id) = self.names.get(name) {
            return Ok(id.clone());
        }
        let mut near =
            self.containers.range(name.to_owned()..).filter(|(id, _)| !name.is_empty() && id.starts_with(name));
        near.next().map(|(id, _)| id.clone()).ok_or_else(|| Refusal::no_container(reference))
    }

    /// Creates a container and returns its ID.
    pub fn create_container(&mut self, new: NewContainer) -> Result<String, Refusal> {
        let image_id = self.find_image(&new.image)?;
        let id = self.next_id();
        let name = if new.name.is_empty() { format!("made_up_{}", &id[..8]) } else { new.name };
        let name = name.strip_prefix('/').map_or(name.clone(), str::to_owned);
        if !is_name(&name) {
            return Err(Refusal::bad(invalid_name(&name)));
        }
        if let Some(holder) = self.names.get(&name) {
            return Err(Refusal::conflict(taken(&name, holder)));
        }
        let mut volumes = Vec::new();
        for (volume, destination) in new.volumes {
            let anonymous = volume.is_empty();
            let volume = if anonymous { self.next_id() } else { volume };
            // Emits a create event even if the volume exists, as dockerd does.
            self.create_volume(&volume, BTreeMap::new(), BTreeMap::new())?;
            volumes.push(Mount { volume, destination, anonymous });
        }
        let mut command = if new.command.is_empty() { vec!["sleep".to_owned(), "600".to_owned()] } else { new.command };
        let path = command.remove(0);
        let mut labels = self.images.get(&image_id).map(|image| image.labels.clone()).unwrap_or_default();
        labels.extend(new.labels);
        let created = self.now();
        let container = Container {
            id: id.clone(),
            name: name.clone(),
            image: new.image,
            image_id,
            path,
            args: command,
            labels,
            ports: new.ports,
            tty: new.tty,
            auto_remove: new.auto_remove,
            volumes,
            created,
            state: State::default(),
            log: Vec::new(),
        };
        self.containers.insert(id.clone(), container);
        self.names.insert(name, id.clone());
        self.tell_of(&id, "create", &[]);
        Ok(id)
    }

    /// Starts a container.
    pub fn start_container(&mut self, reference: &str) -> Result<Done, Refusal> {
        let id = self.find_container(reference)?;
        match self.status(&id) {
            Status::Paused => Err(Refusal::conflict("cannot start a paused container, try unpause instead")),
            Status::Running => Ok(Done::Already),
            Status::Created | Status::Exited => self.run(&id).map(|()| Done::Changed),
        }
    }

    /// Stops a container, also a paused one.
    pub fn stop_container(&mut self, reference: &str) -> Result<Done, Refusal> {
        let id = self.find_container(reference)?;
        if !self.status(&id).is_alive() {
            return Ok(Done::Already);
        }
        self.stop(&id);
        Ok(Done::Changed)
    }

    /// Stops a container if it runs, and starts it.
    pub fn restart_container(&mut self, reference: &str) -> Result<Done, Refusal> {
        let id = self.find_container(reference)?;
        if self.status(&id).is_alive() {
            self.stop(&id);
        }
        self.run(&id)?;
        self.tell_of(&id, "restart", &[]);
        Ok(Done::Changed)
    }

    /// Kills a container's process.
    pub fn kill_container(&mut self, reference: &str, signal: &str) -> Result<Done, Refusal> {
        let prefixed = |refusal: Refusal| Refusal {
            message: format!("Cannot kill container: {reference}: {}", refusal.message),
            ..refusal
        };
        let id = self.find_container(reference).map_err(prefixed)?;
        if !self.status(&id).is_alive() {
            return Err(prefixed(Refusal::conflict(format!("Container {id} is not running"))));
        }
        self.tell_of(&id, "kill", &[("signal", signal.to_owned())]);
        self.end_program(&id, 137);
        Ok(Done::Changed)
    }

    /// Pauses a container.
    pub fn pause_container(&mut self, reference: &str) -> Result<Done, Refusal> {
        let id = self.find_container(reference)?;
        match self.status(&id) {
            Status::Running => {}
            Status::Paused => return Err(Refusal::conflict(format!("Container {id} is already paused"))),
            Status::Created | Status::Exited => {
                return Err(Refusal::conflict(format!("Container {id} is not running")));
            }
        }
        self.set_status(&id, Status::Paused);
        self.tell_of(&id, "pause", &[]);
        Ok(Done::Changed)
    }

    /// Unpauses a container.
    pub fn unpause_container(&mut self, reference: &str) -> Result<Done, Refusal> {
        let id = self.find_container(reference)?;
        if self.status(&id) != Status::Paused {
            let message = format!("Container {id} is not paused");
            return Err(Refusal::new(http::StatusCode::INTERNAL_SERVER_ERROR, message));
        }
        self.set_status(&id, Status::Running);
        self.tell_of(&id, "unpause", &[]);
        Ok(Done::Changed)
    }

    /// Renames a container.
    pub fn rename_container(&mut self, reference: &str, name: &str) -> Result<Done, Refusal> {
        let name = name.strip_prefix('/').unwrap_or(name);
        if name.is_empty() {
            return Err(Refusal::bad("Neither old nor new names may be empty"));
        }
        let id = self.find_container(reference)?;
        if !is_name(name) {
            return Err(Refusal::bad(format!("Error when allocating new name: {}", invalid_name(name))));
        }
        match self.names.get(name) {
            Some(holder) if *holder == id => {
                return Err(Refusal::bad("Renaming a container with the same name as its current name"));
            }
            Some(holder) => {
                let message = format!("Error when allocating new name: {}", taken(name, holder));
                return Err(Refusal::conflict(message));
            }
            None => {}
        }
        let Some(container) = self.containers.get_mut(&id) else { return Err(Refusal::no_container(reference)) };
        let old = std::mem::replace(&mut container.name, name.to_owned());
        self.names.remove(&old);
        self.names.insert(name.to_owned(), id.clone());
        self.tell_of(&id, "rename", &[("oldName", format!("/{old}"))]);
        Ok(Done::Changed)
    }

    /// Removes a container; with `volumes`, its anonymous volumes too.
    pub fn remove_container(&mut self, reference: &str, force: bool, volumes: bool) -> Result<Done, Refusal> {
        let id = self.find_container(reference)?;
        match self.status(&id) {
            Status::Running if !force => {
                let how = "Stop the container before attempting removal or force remove";
                return Err(Refusal::conflict(format!("You cannot remove a running container {id}. {how}")));
            }
            Status::Paused if !force => {
                let how = "Unpause and then stop the container before attempting removal or force remove";
                return Err(Refusal::conflict(format!("You cannot remove a paused container {id}. {how}")));
            }
            Status::Running | Status::Paused => {
                self.tell_of(&id, "kill", &[("signal", "9".to_owned())]);
                self.end_program(&id, 137);
            }
            Status::Created | Status::Exited => {}
        }
        // A container with auto-remove was removed when it exited.
        if self.containers.contains_key(&id) {
            self.destroy(&id, volumes);
        }
        Ok(Done::Changed)
    }

    /// Writes a line to the container's log, as its process would.
    pub fn write_log(&mut self, reference: &str, output: Output, text: &str) -> Result<(), Refusal> {
        let id = self.find_container(reference)?;
        let at = self.now();
        if let Some(container) = self.containers.get_mut(&id) {
            container.log.push(Line { output, at, text: text.to_owned() });
        }
        Ok(())
    }

    /// Makes the process of a running container exit by itself.
    pub fn exit_container(&mut self, reference: &str, code: i32) -> Result<(), Refusal> {
        let id = self.find_container(reference)?;
        if self.status(&id).is_alive() {
            self.end_program(&id, code);
        }
        Ok(())
    }

    fn run(&mut self, id: &str) -> Result<(), Refusal> {
        let Some(container) = self.containers.get(id) else { return Err(Refusal::no_container(id)) };
        let Some(beginning) = program::run(&container.path, &container.args) else { return Err(self.cannot_run(id)) };
        let (pid, now) = (self.next_pid(), self.now());
        let mounts = self.mounts(id);
        for mount in &mounts {
            self.tell_of_volume(mount, "mount");
        }
        if let Some(container) = self.containers.get_mut(id) {
            let finished = container.state.finished;
            container.state = State { status: Status::Running, pid, started: Some(now), finished, ..State::default() };
            let lines = beginning.lines.into_iter().map(|(output, text)| Line { output, at: now, text });
            container.log.extend(lines);
        }
        self.tell_of(id, "start", &[]);
        if let Some(code) = beginning.exit_code {
            self.end_program(id, code);
        }
        Ok(())
    }

    fn cannot_run(&mut self, id: &str) -> Refusal {
        let path = self.containers.get(id).map(|container| container.path.clone()).unwrap_or_default();
        let message = format!(
            "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: \
             exec: \"{path}\": executable file not found in $PATH: unknown"
        );
        if let Some(container) = self.containers.get_mut(id) {
            container.state.error.clone_from(&message);
            container.state.exit_code = 127;
        }
        // Without an event, like dockerd 20.10.
        Refusal::bad(message)
    }

    fn stop(&mut self, id: &str) {
        self.tell_of(id, "kill", &[("signal", "15".to_owned())]);
        if self.status(id) == Status::Paused {
            self.set_status(id, Status::Running);
            self.tell_of(id, "unpause", &[]);
        }
        self.end_program(id, 0);
        self.tell_of(id, "stop", &[]);
    }

    fn end_program(&mut self, id: &str, code: i32) {
        let now = self.now();
        let Some(container) = self.containers.get_mut(id) else { return };
        container.state.status = Status::Exited;
        container.state.pid = 0;
        container.state.exit_code = code;
        container.state.finished = Some(now);
        let goes = container.auto_remove;
        self.tell_of(id, "die", &[("exitCode", code.to_string())]);
        for mount in self.mounts(id) {
            self.tell_of_volume(&mount, "unmount");
        }
        if goes {
            self.destroy(id, true);
        }
    }

    fn destroy(&mut self, id: &str, volumes: bool) {
        self.tell_of(id, "destroy", &[]);
        let Some(container) = self.containers.remove(id) else { return };
        self.names.remove(&container.name);
        for mount in container.volumes.iter().filter(|mount| volumes && mount.anonymous) {
            // A volume stays if another container uses it.
            let _ = self.remove_volume(&mount.volume, false);
        }
    }

    fn mounts(&self, id: &str) -> Vec<String> {
        let volumes = self.containers.get(id).map(|container| container.volumes.iter());
        volumes.into_iter().flatten().map(|mount| mount.volume.clone()).collect()
    }

    fn status(&self, id: &str) -> Status {
        self.containers.get(id).map(|container| container.state.status).unwrap_or_default()
    }

    fn set_status(&mut self, id: &str, status: Status) {
        if let Some(container) = self.containers.get_mut(id) {
            container.state.status = status;
        }
    }

    fn tell_of(&mut self, id: &str, action: &'static str, more: &[(&str, String)]) {
        let Some(container) = self.containers.get(id) else { return };
        let mut said: Vec<(&str, String)> = more.to_vec();
        let labels = container.labels.clone();
        said.extend(labels.iter().map(|(name, value)| (name.as_str(), value.clone())));
        said.extend([("image", container.image.clone()), ("name", container.name.clone())]);
        self.tell("container", action, id, &said);
    }
}

fn invalid_name(name: &str) -> String {
    format!("Invalid container name ({name}), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed")
}

fn taken(name: &str, holder: &str) -> String {
    format!(
        "Conflict. The container name \"/{name}\" is already in use by container \"{holder}\". \
         You have to remove (or rename) that container to be able to reuse that name."
    )
}
