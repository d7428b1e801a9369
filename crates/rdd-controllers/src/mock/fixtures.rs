//! The objects of an example engine, for tests of user interfaces.

use std::fmt::Write as _;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::ObjectMeta;
use rdd_runtime::{Context, Error};
use rdd_types::containers::{Container, ContainerNamespace, ContainerStatus, Image, ImageStatus, Volume, VolumeStatus};
use ring::digest;
use serde::Deserialize;

use super::{API_NAMESPACE, CONTAINER_NAMESPACE};

const TEXT: &str = include_str!("fixtures.json");

/// An object of one of the four kinds.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fixture {
    Namespace(Box<ContainerNamespace>),
    Container(Box<Container>),
    Image(Box<Image>),
    Volume(Box<Volume>),
}

#[derive(Debug, Deserialize)]
struct All {
    containers: Vec<Named<ContainerStatus>>,
    images: Vec<ImageStatus>,
    volumes: Vec<VolumeStatus>,
}

/// A status and the name of its object.
#[derive(Debug, Deserialize)]
struct Named<T> {
    id: String,
    #[serde(flatten)]
    status: T,
}

fn all() -> All {
    serde_json::from_str(TEXT).expect("the fixtures are of our kinds, which a test checks")
}

/// All objects, without an owner.
pub(super) fn fixtures() -> Vec<Fixture> {
    let All { containers, images, volumes } = all();
    let containers = containers.into_iter().map(|Named { id, status }| {
        let status = ContainerStatus { namespace: CONTAINER_NAMESPACE.to_owned(), ..status };
        Fixture::Container(Box::new(Container {
            metadata: metadata(&id),
            status: Some(status),
            ..Container::default()
        }))
    });
    let images = images.into_iter().map(|status| {
        let status = ImageStatus { namespace: CONTAINER_NAMESPACE.to_owned(), ..status };
        let name = image_name(&status.id, status.repo_tag.as_deref());
        Fixture::Image(Box::new(Image { metadata: metadata(&name), status: Some(status) }))
    });
    let volumes = volumes.into_iter().map(|status| {
        let status = VolumeStatus { namespace: CONTAINER_NAMESPACE.to_owned(), ..status };
        let name = sanitised(&status.name);
        Fixture::Volume(Box::new(Volume { metadata: metadata(&name), status: Some(status) }))
    });
    let namespace = ContainerNamespace { metadata: metadata(CONTAINER_NAMESPACE) };
    std::iter::once(Fixture::Namespace(Box::new(namespace))).chain(containers).chain(images).chain(volumes).collect()
}

/// The status of the container with this ID.
pub(super) fn container(id: &str) -> Option<ContainerStatus> {
    all().containers.into_iter().find(|container| container.id == id).map(|container| container.status)
}

fn metadata(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), namespace: Some(API_NAMESPACE.to_owned()), ..ObjectMeta::default() }
}

fn sanitised(text: &str) -> String {
    text.replace('/', "-").replace(':', ".")
}

/// The name of an Image in the mock; the engine controller uses another form.
fn image_name(id: &str, tag: Option<&str>) -> String {
    let mut name = sanitised(id);
    if let Some(tag) = tag {
        name.push('-');
        for byte in digest::digest(&digest::SHA256, tag.as_bytes()).as_ref() {
            write!(name, "{byte:02x}").expect("a String takes all");
        }
    }
    name
}

impl Fixture {
    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Namespace(object) => &mut object.metadata,
            Self::Container(object) => &mut object.metadata,
            Self::Image(object) => &mut object.metadata,
            Self::Volume(object) => &mut object.metadata,
        }
    }

    /// Sets this namespace as the owner.
    pub(super) fn owned_by(mut self, home: &Namespace) -> Self {
        self.metadata_mut().owner_references = Context::owner_reference(home).map(|owner| vec![owner]);
        self
    }

    /// Whether the object exists with the wanted status.
    pub(super) fn is_there(&self, cx: &Context) -> bool {
        macro_rules! found {
            ($wanted:expr, $kind:ty) => {
                cx.cached::<$kind>().get(&rdd_runtime::Key::of($wanted))
            };
        }
        match self {
            Self::Namespace(wanted) => found!(&**wanted, ContainerNamespace).is_some(),
            Self::Container(wanted) => found!(&**wanted, Container).is_some_and(|found| found.status == wanted.status),
            Self::Image(wanted) => found!(&**wanted, Image).is_some_and(|found| found.status == wanted.status),
            Self::Volume(wanted) => found!(&**wanted, Volume).is_some_and(|found| found.status == wanted.status),
        }
    }

    /// Applies the object, then its status.
    pub(super) async fn put(&self, cx: &Context) -> Result<(), Error> {
        macro_rules! put {
            ($object:expr) => {{
                // The status is a subresource, so it needs a second request.
                let mut bare = (**$object).clone();
                let status = bare.status.take();
                cx.apply_status(&cx.apply(&bare).await?, &status).await.map(drop)
            }};
        }
        match self {
            Self::Namespace(object) => cx.apply(&**object).await.map(drop),
            Self::Container(object) => put!(object),
            Self::Image(object) => put!(object),
            Self::Volume(object) => put!(object),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fixtures_are_of_our_kinds_and_each_has_its_name() {
        let mut all = fixtures();
        let names: Vec<String> = all.iter_mut().filter_map(|one| one.metadata_mut().name.clone()).collect();
        assert_eq!(names.len(), 1 + 4 + 4 + 2);
        let unique: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
        assert!(names.contains(&"shop-data".to_owned()), "{names:?}");
        assert!(names.contains(&format!("sha256.{}", "3".repeat(64))), "{names:?}");
    }

    #[test]
    fn an_image_is_named_after_its_id_and_its_tag() {
        let hash = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        assert_eq!(image_name("sha256:a/b", Some("hello")), format!("sha256.a-b-{hash}"));
        assert_eq!(image_name("sha256:a/b", None), "sha256.a-b");
    }
}
