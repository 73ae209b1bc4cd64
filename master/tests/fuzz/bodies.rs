//! Damaged bodies and patches of every kind.

use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::damage::{Edit, damaged, edits};
use crate::fuzz;
use crate::protobuf;
use crate::seeds::{self, Seed};
use crate::server::{Server, admin};

/// A valid request and its damage; sometimes it gets the media type or query of another request.
fn requests() -> impl Strategy<Value = (Seed, Vec<Edit>, Option<Index>, &'static str)> {
    let seeds: Vec<Seed> = [seeds::OBJECTS, seeds::CHANGES].concat();
    let query =
        select(&["", "", "", "?fieldValidation=Strict", "?dryRun=All", "?fieldManager=f&force=true"][..]);
    (select(seeds), edits(), prop::option::weighted(0.05, any::<Index>()), query)
}

#[test]
fn damaged_bodies_get_an_error_with_the_cause() {
    let server = Server::new();
    fuzz(2000, &requests(), |(seed, edits, other, query)| {
        let media_type = other.map_or(seed.media_type, |other| other.get(seeds::CHANGES).media_type);
        let uri = format!("{}{}", seed.path, if seed.path.contains('?') { "" } else { query });
        let request = admin(seed.method, &uri).header("content-type", media_type);
        server.send_request(request, &damaged(seed.body.as_bytes(), &edits)).map(drop)
    });
}

#[test]
fn damaged_protobuf_gets_an_error_with_the_cause() {
    let server = Server::new();
    let seeds = protobuf::seeds();
    for (path, body) in &seeds {
        let request = admin("POST", path).header("content-type", protobuf::MEDIA_TYPE);
        let answer = server.send_request(request, body).unwrap();
        assert_eq!(answer.code, 201, "{path} {answer:?}");
    }
    fuzz(2000, &(select(seeds), edits()), |((path, body), edits)| {
        let request = admin("POST", path).header("content-type", protobuf::MEDIA_TYPE);
        server.send_request(request, &damaged(&body, &edits)).map(drop)
    });
}
