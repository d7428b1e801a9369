//! The fake engine's operations on images and volumes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{
    refusal::{Done, Refusal},
    world::{Image, Volume, World, is_name, short},
};

impl World {
    /// Finds an image by ID, prefix of the ID, or tag; returns its ID.
    pub fn find_image(&self, reference: &str) -> Result<String, Refusal> {
        self.look_up_image(reference).map(|(id, _)| id)
    }

    /// Finds an image; returns its ID, and the tag if it was found by tag.
    fn look_up_image(&self, reference: &str) -> Result<(String, Option<String>), Refusal> {
        if self.images.contains_key(reference) {
            return Ok((reference.to_owned(), None));
        }
        let tag = familiar(reference);
        if let Some(id) = self.tags.get(&tag) {
            return Ok((id.clone(), Some(tag)));
        }
        let digits = reference.strip_prefix("sha256:").unwrap_or(reference);
        let from = format!("sha256:{digits}");
        let is_id = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let near = self.images.range(from.clone()..).next().filter(|(id, _)| is_id && id.starts_with(&from));
        near.map(|(id, _)| (id.clone(), None))
            .ok_or_else(|| Refusal::no_image(if reference.starts_with("sha256:") { reference } else { &tag }))
    }

    /// Creates an image, tagged if there is a tag, and returns its ID.
    pub fn import_image(&mut self, tag: Option<&str>, labels: BTreeMap<String, String>) -> Result<String, Refusal> {
        let id = format!("sha256:{}", self.next_id());
        let tag = tag.map(reference).transpose()?;
        let (created, empty) = (self.now(), BTreeSet::new);
        let image = Image { id: id.clone(), tags: empty(), digests: empty(), labels, created, size: 4 << 20 };
        self.images.insert(id.clone(), image);
        if let Some(tag) = tag {
            self.put_tag(&id, &familiar(&tag));
            self.tell_of_image(&id, "tag", &tag);
        }
        self.tell_of_image(&id, "import", &id);
        Ok(id)
    }

    /// Tags an image. An image that had the tag loses it, without an event.
    pub fn tag_image(&mut self, image: &str, tag: &str) -> Result<(), Refusal> {
        let id = self.find_image(image)?;
        let tag = reference(tag)?;
        self.put_tag(&id, &familiar(&tag));
        self.tell_of_image(&id, "tag", &tag);
        Ok(())
    }

    /// Removes a tag, and the image with its last tag; given an ID, all of its tags. Returns Docker's list of what was removed.
    pub fn remove_image(&mut self, reference: &str, force: bool) -> Result<Value, Refusal> {
        let (id, tag) = self.look_up_image(reference)?;
        let tags = self.images.get(&id).map(|image| image.tags.clone()).unwrap_or_default();
        let user = self.user_of(&id);
        let gone = match tag {
            Some(tag) => {
                if let Some((container, _)) = user.as_ref().filter(|_| tags.len() == 1 && !force) {
                    return Err(Refusal::conflict(format!(
                        "conflict: unable to remove repository reference \"{tag}\" (must force) - container {} is using its referenced image {}",
                        short(container),
                        short(&id)
                    )));
                }
                vec![tag]
            }
            None => {
                self.may_delete(&id, &tags, user.as_ref(), force)?;
                tags.iter().cloned().collect()
            }
        };
        let mut listed = Vec::new();
        for tag in &gone {
            self.tags.remove(tag);
            if let Some(image) = self.images.get_mut(&id) {
                image.tags.remove(tag);
            }
            listed.push(json!({"Untagged": tag}));
            self.tell_of_image(&id, "untag", &id);
        }
        let by_id_of_stopped = gone.len() == tags.len() && (user.is_none() || !reference_is_tag(reference, &tags));
        if by_id_of_stopped {
            self.images.remove(&id);
            listed.push(json!({"Deleted": id}));
            self.tell("image", "delete", &id, &[("name", id.clone())]);
        }
        Ok(listed.into())
    }

    fn may_delete(
        &self,
        id: &str,
        tags: &BTreeSet<String>,
        user: Option<&(String, bool)>,
        force: bool,
    ) -> Result<(), Refusal> {
        let short_id = short(id);
        let refuse = |why: String| Err(Refusal::conflict(format!("conflict: unable to delete {short_id} {why}")));
        let repositories: BTreeSet<&str> = tags.iter().filter_map(|tag| Some(tag.rsplit_once(':')?.0)).collect();
        match user {
            _ if repositories.len() > 1 && !force => {
                refuse("(must be forced) - image is referenced in multiple repositories".to_owned())
            }
            Some((container, true)) => {
                refuse(format!("(cannot be forced) - image is being used by running container {}", short(container)))
            }
            Some((container, false)) if !force => {
                refuse(format!("(must be forced) - image is being used by stopped container {}", short(container)))
            }
            _ => Ok(()),
        }
    }

    /// A container that uses the image and whether it runs; prefers a running one.
    fn user_of(&self, image: &str) -> Option<(String, bool)> {
        let users = self.containers.values().filter(|container| container.image_id == image);
        let with_state = users.map(|container| (container.id.clone(), container.state.status.is_alive()));
        with_state.max_by_key(|(_, alive)| *alive)
    }

    fn put_tag(&mut self, id: &str, tag: &str) {
        let before = self.tags.insert(tag.to_owned(), id.to_owned());
        if let Some(image) = before.and_then(|before| self.images.get_mut(&before)) {
            image.tags.remove(tag);
        }
        if let Some(image) = self.images.get_mut(id) {
            image.tags.insert(tag.to_owned());
        }
    }

    fn tell_of_image(&mut self, id: &str, action: &'static str, name: &str) {
        let labels = self.images.get(id).map(|image| image.labels.clone()).unwrap_or_default();
        let mut said: Vec<(&str, String)> = labels.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
        said.push(("name", name.to_owned()));
        self.tell("image", action, id, &said);
    }

    /// Creates a volume or finds an existing one, with a create event in both cases.
    pub fn create_volume(
        &mut self,
        name: &str,
        labels: BTreeMap<String, String>,
        options: BTreeMap<String, String>,
    ) -> Result<Volume, Refusal> {
        let name = if name.is_empty() { self.next_id() } else { name.to_owned() };
        if !is_name(&name) {
            return Err(Refusal::bad(format!(
                "create {name}: \"{name}\" includes invalid characters for a local volume name, only \
                 \"[a-zA-Z0-9][a-zA-Z0-9_.-]\" are allowed. If you intended to pass a host directory, use absolute path"
            )));
        }
        let created = self.now();
        let new = Volume { name: name.clone(), labels, options, created };
        let volume = self.volumes.entry(name.clone()).or_insert(new).clone();
        self.tell_of_volume(&name, "create");
        Ok(volume)
    }

    /// Removes a volume; with `force`, succeeds if it does not exist.
    pub fn remove_volume(&mut self, name: &str, force: bool) -> Result<Done, Refusal> {
        if !self.volumes.contains_key(name) {
            return if force { Ok(Done::Already) } else { Err(Refusal::no_volume(name)) };
        }
        let uses = |container: &&super::world::Container| container.volumes.iter().any(|mount| mount.volume == name);
        let users: Vec<&str> = self.containers.values().filter(uses).map(|container| container.id.as_str()).collect();
        if !users.is_empty() {
            return Err(Refusal::conflict(format!("remove {name}: volume is in use - [{}]", users.join(", "))));
        }
        self.volumes.remove(name);
        self.tell_of_volume(name, "destroy");
        Ok(Done::Changed)
    }

    pub(super) fn tell_of_volume(&mut self, name: &str, action: &'static str) {
        self.tell("volume", action, name, &[("driver", "local".to_owned())]);
    }
}

fn reference_is_tag(reference: &str, tags: &BTreeSet<String>) -> bool {
    tags.contains(&familiar(reference))
}

/// The short form of a reference as Docker shows it: without the default registry, with a tag.
pub(super) fn familiar(reference: &str) -> String {
    let short = reference.strip_prefix("docker.io/").unwrap_or(reference);
    let short = short.strip_prefix("library/").unwrap_or(short);
    let has_tag = short.rsplit('/').next().is_some_and(|last| last.contains(':'));
    if has_tag { short.to_owned() } else { format!("{short}:latest") }
}

/// Validates a reference.
fn reference(text: &str) -> Result<String, Refusal> {
    let repository = text.rsplit_once(':').map_or(text, |(repository, _)| repository);
    let broken = http::StatusCode::INTERNAL_SERVER_ERROR;
    if repository.chars().any(|letter| letter.is_ascii_uppercase()) {
        return Err(Refusal::new(broken, "invalid reference format: repository name must be lowercase"));
    }
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "._-/:@".contains(letter);
    if repository.is_empty() || !text.chars().all(is_letter) {
        return Err(Refusal::new(broken, "invalid reference format"));
    }
    let short = text.strip_prefix("docker.io/").unwrap_or(text);
    Ok(short.strip_prefix("library/").unwrap_or(short).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_shown_as_docker_shows_them() {
        for (given, shown) in [
            ("box", "box:latest"),
            ("docker.io/library/foo", "foo:latest"),
            ("localhost:5000/foo", "localhost:5000/foo:latest"),
            ("other/box:2", "other/box:2"),
        ] {
            assert_eq!(familiar(given), shown);
        }
        assert!(reference("UP:2").is_err());
        assert!(reference("").is_err());
        assert_eq!(reference("docker.io/library/foo").unwrap(), "foo");
    }
}
