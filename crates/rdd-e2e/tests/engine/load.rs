//! Random operations from both sides: by a docker client, and by a client of the API.

use serde_json::{Value, json};

use crate::{
    chance::Chance,
    docker::Docker,
    product::{Api, asking, mirrors},
};

/// The maximum number of containers; each that runs costs resources.
const CONTAINERS_MAX: usize = 10;
const IMAGES_MAX: usize = 8;
const VOLUMES_MAX: usize = 8;
/// The prefix of names of containers that the load does not touch.
pub(crate) const RESERVED: &str = "reserved-";
const TAGS: &[&str] = &["walk/a:1", "walk/a:2", "walk/b:1", "walk/c:1"];
const VOLUMES: &[&str] = &["walk-0", "walk-1", "walk-2", "walk-3", "walk-4", "walk-5"];

/// The result of an operation: `None` if there was no reply.
pub(crate) type Done = Option<()>;

/// The number of successful and of rejected operations. An operation is rejected if another client was faster or if the state does not
/// allow it.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Tally {
    pub(crate) done: usize,
    pub(crate) refused: usize,
}

impl Tally {
    fn note(&mut self, status: u16) {
        // 304 means that it is in that state already.
        if status < 300 { self.done += 1 } else { self.refused += 1 }
    }
}

/// A user with a docker client.
pub(crate) struct DockerUser {
    docker: Docker,
    chance: Chance,
    pub(crate) tally: Tally,
    made: usize,
    name: &'static str,
}

impl DockerUser {
    pub(crate) fn new(name: &'static str, docker: Docker, chance: Chance) -> Self {
        Self { docker, chance, tally: Tally::default(), made: 0, name }
    }

    /// Runs a random operation. It may be rejected because another client was faster.
    pub(crate) fn act(&mut self) -> Done {
        match self.chance.below(20) {
            0..=3 => self.create(),
            4..=11 => self.change_container(),
            12 => self.remove_container(),
            13..=14 => self.import(),
            15 => self.tag(),
            16 => self.untag(),
            17..=18 => self.create_volume(),
            _ => self.remove_volume(),
        }
    }

    fn send(&mut self, method: &str, path: &str, body: Option<&Value>) -> Done {
        let answer = self.docker.try_send(method, path, body).ok()?;
        self.tally.note(answer.status);
        // Docker replies 500 to an unpause of a container that is not paused, and while it shuts down.
        assert_ne!(answer.status, 400, "{method} {path}: {}", answer.message());
        Some(())
    }

    fn rows(&self, path: &str) -> Option<Vec<Value>> {
        let answer = self.docker.try_send("GET", path, None).ok()?;
        let rows = if answer.json.is_array() { answer.json } else { answer.json["Volumes"].clone() };
        Some(rows.as_array().cloned().unwrap_or_default())
    }

    /// The containers that the load may touch.
    fn containers(&self) -> Option<Vec<String>> {
        let rows = self.rows("/containers/json?all=1")?;
        let free = rows
            .iter()
            .filter(|row| !row["Names"][0].as_str().unwrap_or_default().trim_start_matches('/').starts_with(RESERVED));
        Some(free.filter_map(|row| Some(row["Id"].as_str()?.to_owned())).collect())
    }

    fn create(&mut self) -> Done {
        if self.containers()?.len() >= CONTAINERS_MAX {
            return self.remove_container();
        }
        let images = self.rows("/images/json?all=1")?;
        let Some(image) = self.chance.pick(&images).and_then(|row| row["Id"].as_str().map(str::to_owned)) else {
            return self.import();
        };
        self.made += 1;
        let name = format!("{}-{}", self.name, self.made);
        let mut more = json!({"Labels": {"made": name}});
        if self.chance.below(3) == 0 {
            let volume = self.chance.pick(VOLUMES)?;
            more["HostConfig"] = json!({"NetworkMode": "none", "Binds": [format!("{volume}:/data")]});
        }
        let made = self.docker.try_create(&name, &image, &more).ok()?;
        self.tally.note(made.status);
        let Some(id) = made.json["Id"].as_str().filter(|_| self.chance.below(2) == 0) else { return Some(()) };
        self.send("POST", &format!("/containers/{id}/start"), None)
    }

    fn change_container(&mut self) -> Done {
        let containers = self.containers()?;
        let Some(id) = self.chance.pick(&containers) else { return self.create() };
        let verbs = ["start", "stop", "restart", "pause", "unpause", "pause", "unpause", "kill"];
        let verb = *self.chance.pick(&verbs)?;
        if self.chance.below(8) == 0 {
            self.made += 1;
            let name = format!("{}-renamed-{}", self.name, self.made);
            return self.send("POST", &format!("/containers/{id}/rename?name={name}"), None);
        }
        self.send("POST", &format!("/containers/{id}/{verb}"), None)
    }

    fn remove_container(&mut self) -> Done {
        let containers = self.containers()?;
        let Some(id) = self.chance.pick(&containers) else { return Some(()) };
        self.send("DELETE", &format!("/containers/{id}?force=1"), None)
    }

    fn import(&mut self) -> Done {
        if self.rows("/images/json?all=1")?.len() >= IMAGES_MAX {
            return self.untag();
        }
        // One in four has no tag; the others take their tag from the image that had it.
        let tag = if self.chance.below(4) == 0 { "" } else { self.chance.pick(TAGS)? };
        let made = self.docker.try_import(tag).ok()?;
        self.tally.note(made.status);
        Some(())
    }

    fn tag(&mut self) -> Done {
        let images = self.rows("/images/json?all=1")?;
        let Some(id) = self.chance.pick(&images).and_then(|row| row["Id"].as_str()) else { return self.import() };
        let (repository, tag) = self.chance.pick(TAGS)?.split_once(':')?;
        self.send("POST", &format!("/images/{id}/tag?repo={repository}&tag={tag}"), None)
    }

    fn untag(&mut self) -> Done {
        let images = self.rows("/images/json?all=1")?;
        let Some(row) = self.chance.pick(&images) else { return Some(()) };
        let tag = row["RepoTags"][0].as_str().filter(|tag| *tag != "<none>:<none>");
        let reference = tag.or(row["Id"].as_str())?;
        let force = if self.chance.below(3) == 0 { "?force=1" } else { "" };
        self.send("DELETE", &format!("/images/{reference}{force}"), None)
    }

    fn create_volume(&mut self) -> Done {
        if self.rows("/volumes")?.len() >= VOLUMES_MAX {
            return self.remove_volume();
        }
        let name = self.chance.pick(VOLUMES)?;
        self.send("POST", "/volumes/create", Some(&json!({"Name": name, "Labels": {"of": self.name}})))
    }

    fn remove_volume(&mut self) -> Done {
        let name = self.chance.pick(VOLUMES)?;
        self.send("DELETE", &format!("/volumes/{name}"), None)
    }
}

/// A user of the API.
pub(crate) struct ApiUser {
    api: Api,
    namespace: String,
    chance: Chance,
    pub(crate) tally: Tally,
}

impl ApiUser {
    pub(crate) fn new(api: Api, namespace: &str, chance: Chance) -> Self {
        Self { api, namespace: namespace.to_owned(), chance, tally: Tally::default() }
    }

    /// Runs a random operation.
    pub(crate) fn act(&mut self) -> Done {
        match self.chance.below(20) {
            0..=9 => self.ask_for_action(),
            10..=13 => self.intend(),
            14..=15 => self.delete("containers"),
            16..=17 => self.delete("images"),
            _ => self.delete("volumes"),
        }
    }

    fn call(&mut self, method: &str, path: &str, body: Option<&Value>) -> Done {
        let (code, answer) = self.api.call(method, path, body)?;
        self.tally.note(code);
        let is_fine = matches!(code, 200 | 201 | 202 | 404 | 409);
        // While a daemon starts, its webhooks do not answer yet.
        assert!(is_fine || code >= 500, "{method} {path}: {code} {answer}");
        Some(())
    }

    fn pick(&mut self, kind: &str) -> Option<Option<String>> {
        let all = self.api.list(&mirrors(&self.namespace, kind))?;
        let is_free = |object: &&Value| {
            let name = object["status"]["name"].as_str().unwrap_or_default();
            !name.starts_with(RESERVED)
        };
        let free: Vec<&Value> = all.iter().filter(is_free).collect();
        let picked = self.chance.pick(&free).and_then(|object| object["metadata"]["name"].as_str());
        Some(picked.map(|name| format!("{}/{name}", mirrors(&self.namespace, kind))))
    }

    fn ask_for_action(&mut self) -> Done {
        let Some(path) = self.pick("containers")? else { return Some(()) };
        let actions = ["start", "stop", "restart", "pause", "unpause"];
        let action = *self.chance.pick(&actions)?;
        self.call("PATCH", &path, Some(&asking(action)))
    }

    fn intend(&mut self) -> Done {
        let Some(path) = self.pick("containers")? else { return Some(()) };
        let states = ["running", "created", "unknown"];
        let state = *self.chance.pick(&states)?;
        self.call("PATCH", &path, Some(&json!({"spec": {"state": state}})))
    }

    fn delete(&mut self, kind: &str) -> Done {
        let Some(path) = self.pick(kind)? else { return Some(()) };
        self.call("DELETE", &path, None)
    }
}
