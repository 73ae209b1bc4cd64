//! Authentication and authorization through kubectl: several users, with certificates and with tokens.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;
use tests::{DEADLINE, Master, Output, trusting, wait_until};

/// Output of a kubectl command that must succeed, as administrator.
async fn admin(master: &Master, arguments: &str) -> String {
    let output = as_file(master, &master.data_dir().join("admin.kubeconfig"), arguments).await;
    assert!(output.code == 0, "kubectl {arguments}: {output:?}\n{}", master.log());
    output.stdout.trim_end().to_owned()
}

async fn as_file(master: &Master, kubeconfig: &std::path::Path, arguments: &str) -> Output {
    master.kubectl(kubeconfig, &arguments.split(' ').collect::<Vec<_>>()).await
}

/// Runs kubectl with a token as the only credential.
async fn with_token(master: &Master, token: &str, arguments: &str) -> Output {
    let server = format!("--server=https://127.0.0.1:{}", master.port);
    let authority = format!("--certificate-authority={}", master.data_dir().join("pki/root.crt").display());
    let token = format!("--token={token}");
    let mut all = vec![server.as_str(), authority.as_str(), token.as_str()];
    all.extend(arguments.split(' '));
    master.kubectl(std::path::Path::new("/dev/null"), &all).await
}

/// Writes a manifest file for kubectl.
fn manifest(master: &Master, name: &str, text: &str) -> String {
    let path = master.data_dir().join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[tokio::test]
async fn users_have_the_permissions_of_their_roles_and_get_the_reason_otherwise() {
    let master = Master::running().await;
    admin(&master, "create namespace shop").await;
    let joe = master.user("joe", &["dev"]).await;
    let refused = as_file(&master, &joe, "get pods -n shop").await;
    let expected = "Error from server (Forbidden): pods is forbidden: User \"joe\" cannot list resource \"pods\" in API group \"\" \
                    in the namespace \"shop\"";
    assert_eq!((refused.code, refused.stderr.trim_end()), (1, expected));
    admin(&master, "create rolebinding devs -n shop --clusterrole=view --group=dev").await;
    master.until_found("/api/v1/namespaces/shop/configmaps/kube-root-ca.crt").await;
    for (arguments, expected) in [
        ("auth can-i list pods -n shop", "yes"),
        ("auth can-i get pods --subresource=log -n shop", "yes"),
        ("auth can-i list deployments.apps -n shop", "yes"),
        ("auth can-i get secrets -n shop", "no"),
        ("auth can-i list pods -n default", "no"),
        ("auth can-i create pods --subresource=exec -n shop", "no"),
        ("auth can-i get /version", "yes"),
        ("auth can-i get /metrics", "no"),
        ("get configmaps -n shop -o name", "configmap/kube-root-ca.crt"),
    ] {
        let output = as_file(&master, &joe, arguments).await;
        assert_eq!(output.stdout.trim_end(), expected, "{arguments} {output:?}");
    }
    let whoami = as_file(&master, &joe, "auth whoami").await;
    assert!(
        whoami.stdout.contains("joe") && whoami.stdout.contains("[dev system:authenticated]"),
        "{whoami:?}"
    );
    let list = as_file(&master, &joe, "auth can-i --list -n shop").await;
    let pods = list.stdout.lines().find(|line| line.starts_with("pods ")).unwrap_or_default();
    assert!(pods.contains("[get list watch]"), "{list:?}");
    let refused = as_file(&master, &joe, "delete configmap kube-root-ca.crt -n shop").await;
    assert!(refused.stderr.contains("cannot delete resource \"configmaps\""), "{refused:?}");
}

#[tokio::test]
async fn impersonation_needs_a_role() {
    let master = Master::running().await;
    let joe = master.user("joe", &[]).await;
    for (arguments, expected) in [
        ("auth can-i list pods --as ann", "no"),
        ("auth can-i list pods --as ann --as-group system:masters", "yes"),
        ("auth can-i list pods --as system:serviceaccount:default:web", "no"),
    ] {
        let output = as_file(&master, &master.data_dir().join("admin.kubeconfig"), arguments).await;
        assert_eq!(output.stdout.trim_end(), expected, "{arguments} {output:?}");
    }
    let whoami = admin(&master, "auth whoami --as system:serviceaccount:default:web").await;
    assert!(whoami.contains("system:serviceaccounts:default"), "{whoami}");
    let refused = as_file(&master, &joe, "create serviceaccount x --as ann").await;
    let expected = "users \"ann\" is forbidden: User \"joe\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope";
    assert!(refused.stderr.contains(expected), "{refused:?}");
    admin(&master, "create clusterrole as-ann --verb=impersonate --resource=users --resource-name=ann").await;
    admin(&master, "create clusterrolebinding as-ann --clusterrole=as-ann --user=joe").await;
    let whoami = as_file(&master, &joe, "auth whoami --as ann").await;
    assert!(whoami.stdout.contains("ann"), "{whoami:?}");
    let refused = as_file(&master, &joe, "create serviceaccount x --as bob").await;
    assert!(refused.stderr.contains("cannot impersonate"), "{refused:?}");
}

#[tokio::test]
async fn no_user_grants_permissions_beyond_their_own() {
    let master = Master::running().await;
    admin(&master, "create namespace shop").await;
    admin(&master, "create rolebinding ann -n shop --clusterrole=admin --user=ann").await;
    let ann = master.user("ann", &[]).await;
    let given = as_file(&master, &ann, "create role reader -n shop --verb=get,list --resource=pods").await;
    assert_eq!(given.code, 0, "{given:?}");
    let given = as_file(&master, &ann, "create rolebinding joe -n shop --clusterrole=edit --user=joe").await;
    assert_eq!(given.code, 0, "{given:?}");
    let refused = as_file(&master, &ann, "create role nodes -n shop --verb=get --resource=nodes").await;
    let expected = "is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"nodes\"], Verbs:[\"get\"]}";
    assert!(refused.stderr.contains(expected), "{refused:?}");
    let refused =
        as_file(&master, &ann, "create rolebinding all -n shop --clusterrole=cluster-admin --user=ann").await;
    assert!(refused.stderr.contains("not currently held"), "{refused:?}");
    let refused = as_file(&master, &ann, "create clusterrolebinding ann --clusterrole=view --user=ann").await;
    assert!(refused.stderr.contains("cannot create resource \"clusterrolebindings\""), "{refused:?}");
    let patch = r#"patch role reader -n shop --type=json -p [{"op":"replace","path":"/rules/0/resources/0","value":"nodes"}]"#;
    let refused = as_file(&master, &ann, patch).await;
    assert!(refused.stderr.contains("not currently held"), "{refused:?}");
    let labelled = as_file(&master, &ann, "label role reader -n shop tier=one").await;
    assert_eq!(labelled.code, 0, "a role that is not changed may be labelled: {labelled:?}");
    admin(
        &master,
        "create clusterrole binder --verb=bind --resource=clusterroles --resource-name=cluster-admin",
    )
    .await;
    admin(&master, "create rolebinding binder -n shop --clusterrole=binder --user=ann").await;
    let given =
        as_file(&master, &ann, "create rolebinding all -n shop --clusterrole=cluster-admin --user=ann").await;
    assert_eq!(given.code, 0, "{given:?}");
    assert_eq!(as_file(&master, &ann, "auth can-i * * -n shop").await.stdout.trim_end(), "yes");
    // Server-side apply of a new object requires the `create` permission.
    admin(&master, "create role patcher -n default --verb=patch,get --resource=configmaps").await;
    admin(&master, "create rolebinding patcher -n default --role=patcher --user=ann").await;
    let config = manifest(
        &master,
        "c.json",
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"b"}}"#,
    );
    let apply = format!("apply --server-side --validate=false -n default -f {config}");
    let refused = as_file(&master, &ann, &apply).await;
    assert!(refused.stderr.contains("cannot create resource \"configmaps\""), "{refused:?}");
    admin(&master, &apply).await;
    let applied =
        as_file(&master, &ann, &apply.replace("--server-side", "--server-side --force-conflicts")).await;
    assert_eq!(applied.code, 0, "{applied:?}");
}

#[tokio::test]
async fn service_account_token_is_valid_until_it_expires_or_its_account_is_deleted() {
    let mut master = Master::running().await;
    admin(&master, "create serviceaccount web").await;
    let token = admin(&master, "create token web").await;
    let whoami = with_token(&master, &token, "auth whoami").await;
    assert!(whoami.stdout.contains("system:serviceaccount:default:web"), "{whoami:?}");
    assert!(whoami.stdout.contains("JTI="), "{whoami:?}");
    let refused = with_token(&master, &token, "get configmaps").await;
    assert!(refused.stderr.contains("User \"system:serviceaccount:default:web\" cannot list"), "{refused:?}");
    admin(&master, "create rolebinding web --clusterrole=edit --serviceaccount=default:web").await;
    let made = with_token(&master, &token, "create configmap of-web --from-literal=a=b").await;
    assert_eq!(made.code, 0, "{made:?}");
    let own = with_token(&master, &token, "create token web --duration=10m").await;
    assert_eq!(own.stdout.split('.').count(), 3, "{own:?}");
    let short = with_token(&master, &token, "create token web --duration=1m").await;
    assert!(short.stderr.contains("may not specify a duration less than 10 minutes"), "{short:?}");
    let other = admin(&master, "create token web --audience=vault").await;
    let refused = with_token(&master, &other, "get configmaps").await;
    assert!(refused.stderr.contains("the token is for vault"), "{refused:?}");
    admin(&master, "create secret generic bound").await;
    let bound = admin(&master, "create token web --bound-object-kind=Secret --bound-object-name=bound").await;
    assert_eq!(with_token(&master, &bound, "get configmaps").await.code, 0);
    admin(&master, "delete secret bound").await;
    let refused = with_token(&master, &bound, "get configmaps").await;
    assert!(
        refused.stderr.contains("the secret \"bound\" of the token does not exist any more"),
        "{refused:?}"
    );

    let key = master.data_dir().join("pki/service-account.key");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    master.stop(Signal::TERM).await;
    master.start().await;
    assert_eq!(with_token(&master, &token, "get configmaps").await.code, 0, "tokens outlive the process");
    admin(&master, "delete serviceaccount web").await;
    let refused = with_token(&master, &token, "get configmaps").await;
    assert!(refused.code != 0 && refused.stderr.contains("Unauthorized"), "{refused:?}");
    let refused = with_token(&master, "nonsense", "get configmaps").await;
    assert!(refused.stderr.contains("Unauthorized"), "{refused:?}");

    master.stop(Signal::TERM).await;
    fs::write(&key, "nonsense").unwrap();
    let refused = master.verb(&["run"]).await;
    assert!(refused.code == 1 && refused.stderr.contains("service-account.key"), "{refused:?}");
}

#[tokio::test]
async fn token_secret_is_filled_and_deleted_with_its_service_account() {
    let master = Master::running().await;
    admin(&master, "create serviceaccount robot").await;
    let text = "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/service-account-token\n\
                metadata: {name: robot, annotations: {kubernetes.io/service-account.name: robot}}\n";
    let secret = manifest(&master, "secret.yaml", text);
    admin(&master, &format!("create --validate=false -f {secret}")).await;
    let config = master.data_dir().join("admin.kubeconfig");
    let token = "go-template={{.data.token|base64decode}}";
    let get = async |what: &str| master.kubectl(&config, &["get", "secret", "robot", "-o", what]).await;
    let token = wait_until(DEADLINE, async || match get(token).await {
        output if output.stdout.split('.').count() == 3 => Ok(output.stdout),
        output => Err(format!("{output:?}")),
    });
    let token = token.await.unwrap_or_else(|seen| panic!("{seen}\n{}", master.log()));
    let whoami = with_token(&master, &token, "auth whoami").await;
    assert!(whoami.stdout.contains("system:serviceaccount:default:robot"), "{whoami:?}");
    let rest =
        get(r#"go-template={{.data.namespace|base64decode}} {{index .data "ca.crt"|base64decode}}"#).await;
    assert_eq!(rest.stdout.trim(), format!("default {}", master.admin().unwrap().authority.trim()));
    admin(&master, "delete serviceaccount robot").await;
    let gone = wait_until(DEADLINE, async || match as_file(&master, &config, "get secrets -o name").await {
        output if output.code == 0 && output.stdout.is_empty() => Ok(()),
        output => Err(format!("{output:?}")),
    });
    gone.await.unwrap_or_else(|seen| panic!("{seen}\n{}", master.log()));
    let refused = with_token(&master, &token, "auth whoami").await;
    assert!(refused.code != 0 && refused.stderr.contains("Unauthorized"), "{refused:?}");
}

#[tokio::test]
async fn bootstrap_token_authenticates_until_it_expires() {
    let master = Master::running().await;
    for (id, expiration) in [("abcdef", "2999-01-01T00:00:00Z"), ("expire", "2020-01-01T00:00:00Z")] {
        let create = format!(
            "create secret generic bootstrap-token-{id} -n kube-system --type=bootstrap.kubernetes.io/token \
             --from-literal=token-id={id} --from-literal=token-secret=0123456789abcdef \
             --from-literal=usage-bootstrap-authentication=true --from-literal=expiration={expiration} \
             --from-literal=auth-extra-groups=system:bootstrappers:workers"
        );
        admin(&master, &create).await;
    }
    let whoami = with_token(&master, "abcdef.0123456789abcdef", "auth whoami").await;
    assert!(whoami.stdout.contains("system:bootstrap:abcdef"), "{whoami:?}");
    assert!(
        whoami.stdout.contains("[system:bootstrappers system:bootstrappers:workers system:authenticated]"),
        "{whoami:?}"
    );
    let refused = with_token(&master, "expire.0123456789abcdef", "auth whoami").await;
    assert!(refused.stderr.contains("the bootstrap token expire has expired"), "{refused:?}");
    let refused = with_token(&master, "abcdef.0000000000000000", "auth whoami").await;
    assert!(refused.stderr.contains("Unauthorized") && !refused.stderr.contains("abcdef"), "{refused:?}");
}

#[tokio::test]
async fn aggregated_roles_follow_the_selected_roles() {
    let master = Master::running().await;
    admin(&master, "create clusterrole gadgets --verb=get,list --resource=nodes").await;
    admin(&master, "label clusterrole gadgets rbac.authorization.k8s.io/aggregate-to-view=true").await;
    for role in ["view", "edit", "admin"] {
        let may = format!("create rolebinding {role} --clusterrole={role} --user={role}");
        admin(&master, &may).await;
    }
    for (given, expected) in [("yes", "yes"), ("no", "no")] {
        let file = master.data_dir().join("admin.kubeconfig");
        let look = async || {
            let mut seen = Vec::new();
            for role in ["view", "edit", "admin"] {
                let output = as_file(&master, &file, &format!("auth can-i list nodes --as {role}")).await;
                seen.push(output.stdout.trim_end().to_owned());
            }
            if seen.iter().all(|answer| answer == expected) { Ok(()) } else { Err(format!("{seen:?}")) }
        };
        wait_until(DEADLINE, look).await.unwrap_or_else(|seen| panic!("{seen} {}", master.log()));
        if given == "yes" {
            admin(&master, "delete clusterrole gadgets").await;
        }
    }
}

#[tokio::test]
async fn deleted_bootstrap_roles_return_unless_autoupdate_is_off() {
    let mut master = Master::running().await;
    admin(&master, "delete clusterrole system:monitoring").await;
    let none = r#"--type=json -p [{"op":"replace","path":"/rules","value":[]}]"#;
    admin(&master, &format!("patch clusterrole system:basic-user {none}")).await;
    admin(
        &master,
        "annotate clusterrole system:discovery rbac.authorization.kubernetes.io/autoupdate=false --overwrite",
    )
    .await;
    admin(&master, &format!("patch clusterrole system:discovery {none}")).await;
    admin(&master, "delete clusterrolebinding system:basic-user").await;
    let joe = master.user("joe", &[]).await;
    let refused = as_file(&master, &joe, "auth can-i list pods").await;
    assert!(refused.stderr.contains("cannot create resource \"selfsubjectaccessreviews\""), "{refused:?}");
    master.stop(Signal::TERM).await;
    master.start().await;
    admin(&master, "get clusterrole system:monitoring").await;
    assert_eq!(as_file(&master, &joe, "auth can-i list pods").await.stdout.trim_end(), "no");
    let refused = as_file(&master, &joe, "get --raw /api").await;
    assert!(refused.stderr.contains("forbidden"), "removed rules stay removed: {refused:?}");
}

#[tokio::test]
async fn anonymous_users_read_health_version_and_cluster_info() {
    let master = Master::running().await;
    let anonymous = trusting(&master.admin().unwrap().authority, None).unwrap();
    for (path, expected) in [
        ("/livez", 200),
        ("/readyz", 200),
        ("/version", 200),
        ("/bootstrap/v1/cluster-info", 200),
        ("/bootstrap/v1", 403),
        ("/apis/certificates.k8s.io/v1/certificatesigningrequests", 403),
        ("/livez/ping", 403),
        ("/api", 403),
        ("/openid/v1/jwks", 403),
        ("/api/v1/namespaces/default/configmaps", 403),
    ] {
        assert_eq!(master.send_request(&anonymous, path).await.unwrap().0, expected, "{path}");
    }
    let (code, keys) = master.get_as_admin("/openid/v1/jwks").await;
    assert!(code == 200 && keys.contains("ES256"), "{keys}");
    let (_, document) = master.get_as_admin("/.well-known/openid-configuration").await;
    assert!(document.contains("https://kubernetes.default.svc.cluster.local"), "{document}");
}

#[tokio::test]
async fn access_reviews_are_discoverable_and_never_stored() {
    let master = Master::running().await;
    let table = admin(&master, "api-resources --api-group=authorization.k8s.io -o wide").await;
    assert_eq!(table.lines().count(), 5, "{table}");
    assert!(table.lines().skip(1).all(|line| line.contains("create") && !line.contains("list")), "{table}");
    let file = master.data_dir().join("admin.kubeconfig");
    let refused = as_file(&master, &file, "get subjectaccessreviews").await;
    assert!(refused.code != 0 && refused.stderr.contains("MethodNotAllowed"), "{refused:?}");
    let question = manifest(
        &master,
        "q.json",
        r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"joe","nonResourceAttributes":{"verb":"get","path":"/version"}}}"#,
    );
    let answer =
        admin(&master, &format!("create --validate=false -o jsonpath={{.status.allowed}} -f {question}"))
            .await;
    assert_eq!(answer, "false", "a review uses only the groups that it names");
    let role = manifest(
        &master,
        "r.json",
        r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"r"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}"#,
    );
    for expected in ["reconciled", "unchanged"] {
        let printed = admin(&master, &format!("auth reconcile -f {role}")).await;
        assert!(printed.contains(expected) || expected == "unchanged", "{printed}");
    }
    assert_eq!(admin(&master, "get clusterrole r -o jsonpath={.rules[0].verbs[0]}").await, "get");
}
