//! Requests for objects: get, list, watch, create, update, patch, delete.

use std::time::Duration;

use http::Method;
use serde::de::{DeserializeOwned, DeserializeSeed, IgnoredAny};
use serde_json::{Value, json};

use crate::list::Page;
use crate::watch::Watch;
use crate::{
    APPLY_PATCH, Client, Content, Error, JSON, Json, Kind, MERGE_PATCH, STRATEGIC_MERGE_PATCH, Scope, Typed,
    percent_encoded,
};

/// The propagation policy of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// Dependents are deleted after the owner.
    Background,
    /// Dependents are deleted before the owner.
    Foreground,
    /// Dependents stay, without an owner.
    Orphan,
}

impl Propagation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// Options of a deletion.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions<'a> {
    /// Precondition: the UID of the object.
    pub uid: Option<&'a str>,
    /// Precondition: the resource version of the object.
    pub resource_version: Option<&'a str>,
    /// The propagation policy, or `None` for the default of the server.
    pub propagation: Option<Propagation>,
    /// The grace period of a pod, in seconds.
    pub grace_seconds: Option<u32>,
}

impl Client {
    /// Gets one object.
    ///
    /// # Errors
    /// [`Error::is_not_found`] if it does not exist. After any other error the caller should retry.
    pub async fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Json, Error> {
        self.request(Method::GET, &kind.path(namespace, name), None).await
    }

    /// Gets one object. Returns `None` if it does not exist.
    ///
    /// # Errors
    /// If the server does not say whether the object exists. The caller should retry.
    pub async fn find(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Option<Json>, Error> {
        self.find_as(kind, namespace, name).await
    }

    /// Gets the fields of `T` of one object; `None` if it does not exist.
    ///
    /// # Errors
    /// If the server does not say whether the object exists, or a field has another type. The caller should retry.
    pub async fn find_as<T: DeserializeOwned>(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<T>, Error> {
        match self.request(Method::GET, &kind.path(namespace, name), None).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gets a subresource of an object, such as its scale. Returns `None` if it has none.
    ///
    /// # Errors
    /// If the server does not say whether the subresource exists. The caller should retry.
    pub async fn find_subresource<T: DeserializeOwned>(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        part: &str,
    ) -> Result<Option<T>, Error> {
        match self.request(Method::GET, &format!("{}/{part}", kind.path(namespace, name)), None).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_not_found() || error.is_unknown_resource() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Finds an object by a list with a field selector, for users with permission to list but not to get.
    ///
    /// # Errors
    /// If the server does not say whether the object exists. The caller should retry.
    pub async fn find_by_list<T: DeserializeOwned + Send + Sync>(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<T>, Error> {
        let mut found = None;
        let scope = Scope::object(namespace, name);
        self.list_with(kind, &scope, Typed::<T>::default(), |object| found = Some(object)).await?;
        Ok(found)
    }

    /// Gets a JSON document that is not an API object, such as a discovery document.
    ///
    /// # Errors
    /// If the server does not respond with JSON.
    pub async fn get_document<T: DeserializeOwned>(
        &self,
        path: &str,
        accept: &'static str,
    ) -> Result<T, Error> {
        self.request_with(Method::GET, path, accept, None, Typed::<T>::default()).await
    }

    /// Checks `/readyz`. A server without this path counts as ready.
    ///
    /// # Errors
    /// If the server does not respond or is not ready.
    pub async fn check_ready(&self) -> Result<(), Error> {
        match self.send(Method::GET, "/readyz", JSON, None).await {
            Err(Error::Refused { code, .. }) if code < 500 => Ok(()),
            other => other.map(drop),
        }
    }

    /// Lists a namespace, or all namespaces if it is empty, and passes each object to `each`. Returns the resource
    /// version to watch from.
    ///
    /// # Errors
    /// If a page cannot be read. The objects that `each` has received are then an incomplete list.
    pub async fn list(
        &self,
        kind: &Kind,
        namespace: &str,
        each: impl FnMut(Json) + Send,
    ) -> Result<String, Error> {
        self.list_with(kind, &Scope::namespace(namespace), Typed::default(), each).await
    }

    /// Lists the objects of a namespace that have all of these labels.
    ///
    /// # Errors
    /// If a page cannot be read.
    pub async fn list_by_labels<T: DeserializeOwned + Send + Sync>(
        &self,
        kind: &Kind,
        namespace: &str,
        labels: &[(&str, &str)],
    ) -> Result<Vec<T>, Error> {
        let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let scope = Scope { labels: labels.join(","), ..Scope::namespace(namespace) };
        let mut found = Vec::new();
        self.list_with(kind, &scope, Typed::<T>::default(), |object| found.push(object)).await?;
        Ok(found)
    }

    /// Lists objects page by page, decodes each with `seed` and passes it to `each`. Returns the resource version
    /// to watch from. A page that exceeds the size limit is requested again with half as many objects.
    ///
    /// # Errors
    /// If a page cannot be read. The objects that `each` has received are then an incomplete list.
    pub async fn list_with<T, S>(
        &self,
        kind: &Kind,
        scope: &Scope,
        seed: S,
        mut each: impl FnMut(T) + Send,
    ) -> Result<String, Error>
    where
        S: Copy + Send + Sync + for<'de> DeserializeSeed<'de, Value = T>,
    {
        let (path, selectors) = (kind.path(&scope.namespace, ""), scope.query());
        let (mut limit, mut token) = (self.limits.page_size, String::new());
        loop {
            let url = format!("{path}?limit={limit}{selectors}{token}");
            let page = Page { seed, each: &mut each };
            let metadata = match self.request_with(Method::GET, &url, JSON, None, page).await {
                Err(Error::TooLarge { bytes, .. }) if limit > 1 => {
                    tracing::debug!(
                        path,
                        limit,
                        bytes,
                        "a list page exceeds the size limit; requesting half as many objects"
                    );
                    limit /= 2;
                    continue;
                }
                page => page?,
            };
            match metadata.continue_token {
                // Continue tokens of some servers are base64 with `=` and `+`.
                Some(next) if !next.is_empty() => token = format!("&continue={}", percent_encoded(&next)),
                _ => return Ok(metadata.resource_version.unwrap_or_default()),
            }
        }
    }

    /// Watches objects from a resource version on, and decodes each with `seed`. The server ends the watch after
    /// `timeout`.
    ///
    /// # Errors
    /// [`Error::is_expired`] if the server does not have the resource version. The caller must list again.
    pub async fn watch<S>(
        &self,
        kind: &Kind,
        scope: &Scope,
        resource_version: &str,
        timeout: Duration,
        seed: S,
    ) -> Result<Watch<S>, Error> {
        let url = format!(
            "{}?watch=true&allowWatchBookmarks=true&resourceVersion={resource_version}&timeoutSeconds={}{}",
            kind.path(&scope.namespace, ""),
            timeout.as_secs(),
            scope.query()
        );
        let answer = self.send(Method::GET, &url, JSON, None).await?;
        Ok(Watch::new(answer.server, answer.response.into_body(), seed))
    }

    /// Creates an object.
    ///
    /// # Errors
    /// [`Error::exists`] if an object of this name exists.
    pub async fn create(&self, kind: &Kind, namespace: &str, object: Value) -> Result<Json, Error> {
        self.request(Method::POST, &kind.path(namespace, ""), Some(Content::json(&object))).await
    }

    /// Creates a subresource of an object, such as a binding or a token.
    ///
    /// # Errors
    /// [`Error::is_not_found`] if the object does not exist.
    pub async fn create_subresource(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        part: &str,
        question: Value,
    ) -> Result<Json, Error> {
        let path = format!("{}/{part}", kind.path(namespace, name));
        self.request(Method::POST, &path, Some(Content::json(&question))).await
    }

    /// Replaces an object or one of its subresources, if it still has the resource version in `object`.
    ///
    /// # Errors
    /// [`Error::is_conflict`] if the object changed meanwhile.
    pub async fn update(&self, kind: &Kind, part: &str, object: Json) -> Result<Json, Error> {
        let text = |field: &str| {
            let metadata = object.get("metadata").and_then(|metadata| metadata.get(field));
            metadata.and_then(Value::as_str).unwrap_or_default()
        };
        let mut path = kind.path(text("namespace"), text("name"));
        if !part.is_empty() {
            path = format!("{path}/{part}");
        }
        self.request(Method::PUT, &path, Some(Content::json(&Value::Object(object)))).await
    }

    /// Patches an object with a JSON merge patch.
    ///
    /// # Errors
    /// [`Error::is_conflict`] if the patch names a resource version and the object changed meanwhile.
    pub async fn patch(&self, kind: &Kind, namespace: &str, name: &str, patch: Value) -> Result<Json, Error> {
        let body = Some(Content::of(MERGE_PATCH, &patch));
        self.request(Method::PATCH, &kind.path(namespace, name), body).await
    }

    /// Patches an object with a strategic merge patch, which merges lists by key.
    ///
    /// # Errors
    /// [`Error::is_conflict`] if the patch names a UID or resource version and the object changed meanwhile.
    pub async fn patch_strategic(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        patch: Value,
    ) -> Result<Json, Error> {
        let body = Some(Content::of(STRATEGIC_MERGE_PATCH, &patch));
        self.request(Method::PATCH, &kind.path(namespace, name), body).await
    }

    /// Applies an object (server-side apply). Takes the fields over from other managers.
    ///
    /// # Errors
    /// If the server rejects the object, for example because it does not know one of its fields.
    pub async fn apply(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        manager: &str,
        object: &Json,
    ) -> Result<Json, Error> {
        let path = format!(
            "{}?force=true&fieldValidation=Strict&fieldManager={}",
            kind.path(namespace, name),
            percent_encoded(manager)
        );
        let body = Content::of(APPLY_PATCH, &Value::Object(object.clone()));
        self.request(Method::PATCH, &path, Some(body)).await
    }

    /// Patches a subresource with a strategic merge patch, which merges lists by key.
    ///
    /// # Errors
    /// [`Error::is_conflict`] if the patch names a resource version and the object changed meanwhile.
    pub async fn patch_subresource(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        part: &str,
        patch: Value,
    ) -> Result<Json, Error> {
        let path = format!("{}/{part}", kind.path(namespace, name));
        self.request(Method::PATCH, &path, Some(Content::of(STRATEGIC_MERGE_PATCH, &patch))).await
    }

    /// Deletes an object. A missing object is not an error.
    ///
    /// # Errors
    /// [`Error::is_conflict`] if a precondition fails.
    pub async fn delete(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        how: &DeleteOptions<'_>,
    ) -> Result<(), Error> {
        let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        if let Some(propagation) = how.propagation {
            options["propagationPolicy"] = propagation.as_str().into();
        }
        if let Some(seconds) = how.grace_seconds {
            options["gracePeriodSeconds"] = seconds.into();
        }
        for (field, value) in [("uid", how.uid), ("resourceVersion", how.resource_version)] {
            if let Some(value) = value {
                options["preconditions"][field] = value.into();
            }
        }
        let body = Some(Content::json(&options));
        match self.request::<IgnoredAny>(Method::DELETE, &kind.path(namespace, name), body).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}
