//! The TokenRequest API: the subresource `serviceaccounts/token`.

use rdd_builtin::{decode, kinds, types};
use rdd_meta::{
    FieldError, GroupKind, GroupResource, GroupVersionKind, Status,
    metadata::{Metadata, MetadataMut},
    time::Timestamp,
};
use serde_json::{Value, json};

use super::{ISSUER, ServiceAccounts, claims::claims};
use crate::{auth::Identity, registry::Question};

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";

impl Question for ServiceAccounts {
    fn kind(&self) -> GroupVersionKind {
        GroupVersionKind::new(GROUP, "v1", KIND)
    }

    fn answer(&self, mut question: Value, object: &Value, _asker: &Identity) -> Result<Value, Status> {
        let kind = types::kind(GROUP, "v1", KIND).expect("the table of types has it");
        decode::decode(kind, &mut question).map_err(|refused| Status::bad_request(refused.0))?;
        let strategy = kinds::of(GROUP, KIND);
        if let Some(strategy) = strategy {
            (strategy.default)(&mut question);
        }
        let account = Metadata::of(object);
        self.complete(&mut question, account)?;
        let errors = strategy.map_or_else(Vec::new, |strategy| (strategy.validate_create)(&question));
        if !errors.is_empty() {
            return Err(Status::invalid(&GroupKind::new(GROUP, KIND), "", &errors));
        }
        let secret = self.bound(&question["spec"]["boundObjectRef"], account.namespace())?;
        let seconds = question["spec"]["expirationSeconds"].as_i64().unwrap_or_default();
        let issued = self.now_seconds();
        let expires = issued.saturating_add(seconds);
        let audiences = question["spec"]["audiences"].as_array().into_iter().flatten();
        let audiences = audiences.filter_map(Value::as_str).map(str::to_owned).collect();
        let (name, uid) = (account.name().to_owned(), account.uid().to_owned());
        let claims = claims(account.namespace(), (name, uid), (issued, expires), audiences, secret);
        let token = self.key.sign(&claims.to_value()).ok_or_else(|| Status::internal("failed to generate token"))?;
        let expires = Timestamp::new(expires, 0).format_time();
        question["status"] = json!({"token": token, "expirationTimestamp": expires});
        Ok(question)
    }
}

impl ServiceAccounts {
    /// Checks that the request matches the account of the path, and sets the metadata and default audiences.
    fn complete(&self, question: &mut Value, account: Metadata<'_>) -> Result<(), Status> {
        let given = Metadata::of(question);
        let matches = [
            ("name", given.name(), account.name(), "must match the service account name if specified"),
            (
                "namespace",
                given.namespace(),
                account.namespace(),
                "must match the service account namespace if specified",
            ),
        ];
        for (field, given, expected, why) in matches {
            if !given.is_empty() && given != expected {
                let error = FieldError::invalid(format!("metadata.{field}"), &json!(given), why);
                return Err(Status::invalid(&GroupKind::new(GROUP, KIND), account.name(), &[error]));
            }
        }
        if !given.uid().is_empty() && given.uid() != account.uid() {
            let (given, found) = (given.uid(), account.uid());
            let why = format!(
                "the UID in the token request ({given}) does not match the UID of the service account ({found})"
            );
            return Err(Status::conflict(&GroupResource::new(GROUP, KIND), account.name(), &why));
        }
        let now = Timestamp::from(self.clock.wall());
        if let Some(mut metadata) = MetadataMut::of(question) {
            metadata.set_name(account.name());
            metadata.set_namespace(account.namespace());
            metadata.set_uid(account.uid());
            metadata.set_creation_timestamp(Some(now));
        }
        if question["spec"]["audiences"].as_array().is_none_or(Vec::is_empty) {
            question["spec"]["audiences"] = json!([ISSUER]);
        }
        Ok(())
    }

    /// Resolves the reference to the Secret that the token is bound to: its name and uid. The token is invalid once the Secret is
    /// gone.
    fn bound(&self, reference: &Value, namespace: &str) -> Result<Option<(String, String)>, Status> {
        if reference.is_null() {
            return Ok(None);
        }
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        let (api_version, kind, name) = (text("apiVersion"), text("kind"), text("name"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        if !group.is_empty() || kind != "Secret" {
            let what = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(Status::bad_request(what));
        }
        let resource = GroupResource::new("", "secrets");
        let known = self.find("secrets", namespace, name).ok_or_else(|| Status::not_found(&resource, name))?;
        let given = text("uid");
        if !given.is_empty() && given != known.uid {
            let why = format!(
                "the UID in the bound object reference ({given}) does not match the UID in record. The object might have \
                 been deleted and then recreated"
            );
            return Err(Status::conflict(&GroupResource::new("", kind), name, &why));
        }
        Ok(Some((name.to_owned(), known.uid)))
    }
}
