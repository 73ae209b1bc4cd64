//! The page at `/ui/` of a node in a real browser: live data, sign-in, hostile text, keyboard and accessibility.

use serde_json::json;
use tests::browser::LOOKS;
use tests::manifest::{container, pod, scripted, sleeper};
use tests::{Browser, Output, World};

/// Writes a line with a number every second, after a line with markup and a terminal's escape sequence.
const TALKER: &str = "printf 'red \\033[31mtext\\033[0m <img src=x> bell\\007\\n'; i=0; \
                      while true; do echo line-$i; i=$((i+1)); sleep 1; done";
const READY: &str = "readinessProbe: {exec: {command: ['true']}, periodSeconds: 1}";
const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";

/// A node with the pods `web` and `talker`, and the URL that `kubelet ui` prints.
async fn node(name: &str) -> (World, String) {
    let world = World::running(name).await;
    let script = "trap 'exit 0' TERM; sleep 1000000 & wait";
    let more = format!("{READY}, volumeMounts: [{{name: scratch, mountPath: /scratch}}]");
    let web = format!(
        "volumes: [{{name: scratch, emptyDir: {{}}}}]\ncontainers:\n- {}",
        container("main", script, &more)
    );
    world.write("web.yaml", &pod("web", &web));
    world.write("talker.yaml", &scripted("talker", "Always", TALKER));
    world.wait_ready("web").await;
    world.wait_ready("talker").await;
    let Output { code, stdout, stderr } = world.kubelet(&["ui"]).await;
    assert_eq!(code, 0, "{stderr}");
    (world, stdout.trim().to_owned())
}

#[tokio::test]
async fn the_page_of_a_node_follows_pods_and_logs_without_a_reload() {
    let (world, url) = node("page-live").await;
    let browser = Browser::start().await;
    sign_in(&browser, &url).await;
    browser.wait_for_text(&world.node).await;
    browser.run("window.isSamePage = true; location.hash = '#/pods'").await;
    browser.wait_for_text(&world.pod_name("web")).await;
    browser.wait_for_text(&world.pod_name("talker")).await;

    // The focus stays on its row while another row appears and disappears.
    let focused = format!("document.activeElement.textContent === {}", json!(world.pod_name("web")));
    browser
        .run(&format!(
            "[...document.querySelectorAll('tbody a')].find((a) => a.textContent === {}).focus()",
            json!(world.pod_name("web"))
        ))
        .await;
    browser.wait_for(&focused).await;
    world.write("another.yaml", &sleeper("another"));
    browser.wait_for_text(&world.pod_name("another")).await;
    world.remove("another.yaml");
    browser
        .wait_for(&format!("!document.body.innerText.includes({})", json!(world.pod_name("another"))))
        .await;
    browser.wait_for(&focused).await;

    // The keyboard opens the pod.
    browser.press(ENTER).await;
    browser
        .wait_for(&format!("document.querySelector('h1').textContent === {}", json!(world.pod_name("web"))))
        .await;
    for text in ["Readiness probe", "ready", "scratch", "empty dir", "Started container main"] {
        browser.wait_for_text(text).await;
    }

    browser.run(&format!("location.hash = '#/pods/default/{}'", world.pod_name("talker"))).await;
    browser.wait_for("document.getElementById('log').textContent.includes('line-0')").await;
    let shown =
        browser.run("return document.getElementById('log').childElementCount").await.as_u64().unwrap();
    browser.wait_for(&format!("document.getElementById('log').childElementCount > {}", shown + 2)).await;
    let log = "document.getElementById('log')";
    browser.wait_for(&format!("{log}.textContent.includes('red text <img src=x> bell\u{2407}')")).await;
    assert_eq!(browser.run(&format!("return {log}.querySelectorAll('img').length")).await, 0);
    assert_eq!(browser.run("return window.isSamePage").await, true);
    assert_eq!(browser.complaints().await, [""; 0]);
}

#[tokio::test]
async fn the_page_shows_nothing_before_sign_in_and_keeps_the_token_in_its_tab() {
    let (world, url) = node("page-token").await;
    let (page, token) = url.split_once("#token=").unwrap();
    let browser = Browser::start().await;
    browser.open(page).await;
    browser.wait_for("document.activeElement?.id === 'token'").await;
    let text = browser.text().await;
    assert!(!text.contains(&world.node) && text.contains("kubelet ui"), "{text}");
    let codes = "return Promise.all(['../api/v1/pods', '../api/v1/nodes', '../stats/summary', '../api/v1/secrets', \
                 '../metrics'].map((path) => fetch(path).then(({status}) => status)))";
    assert_eq!(browser.run(codes).await, json!([401, 401, 401, 401, 401]));
    browser.press(&format!("wrong.token.value{ENTER}")).await;
    browser.wait_for_text("rejected the token").await;
    browser.press(&format!("{token}{ENTER}")).await;
    browser.wait_for_text(&world.node).await;
    for place in [
        "location.href",
        "document.documentElement.outerHTML",
        "JSON.stringify(localStorage)",
        "document.cookie",
    ] {
        assert_eq!(
            browser.run(&format!("return {place}.includes({})", json!(token))).await,
            false,
            "{place}"
        );
    }
    // The holder may read, except for Secrets, and changes nothing.
    let codes = format!(
        "return Promise.all([['GET', 'pods'], ['GET', 'secrets'], ['DELETE', 'namespaces/default/pods/{}']].map(([method, path]) => \
         fetch('../api/v1/' + path, {{method, headers: {{Authorization: 'Bearer ' + {}}}}}).then(({{status}}) => status)))",
        world.pod_name("web"),
        json!(token)
    );
    assert_eq!(browser.run(&codes).await, json!([200, 403, 403]));
    // A reload keeps the session, and signing out ends it.
    browser.run("location.reload()").await;
    browser.wait_for_text(&world.node).await;
    browser.run("document.getElementById('leave').click()").await;
    browser.wait_for("document.activeElement?.id === 'token'").await;
    assert_eq!(browser.run("return sessionStorage.length").await, 0);
    // The URL of the command signs in, and its token leaves the address bar.
    sign_in(&browser, &url).await;
    browser.wait_for_text(&world.node).await;
    assert_eq!(browser.run("return location.hash").await, "#/");
}

#[tokio::test]
async fn the_page_says_that_it_is_disconnected_and_recovers() {
    let (mut world, url) = node("page-lost").await;
    let browser = Browser::start().await;
    sign_in(&browser, &url).await;
    browser.run("location.hash = '#/pods'").await;
    browser.wait_for_text(&world.pod_name("web")).await;
    world.kill();
    browser.wait_for("document.getElementById('link')?.textContent === 'Disconnected'").await;
    browser.wait_for_text(&world.pod_name("web")).await;
    world.write("late.yaml", &sleeper("late"));
    world.start().await;
    browser.wait_for("document.getElementById('link')?.textContent === 'Live'").await;
    browser.wait_for_text(&world.pod_name("late")).await;
}

#[tokio::test]
async fn every_view_of_a_node_is_accessible_in_light_and_dark_on_phone_and_desktop() {
    let (world, url) = node("page-axe").await;
    let browser = Browser::start().await;
    let (page, _) = url.split_once('#').unwrap();
    browser.open(page).await;
    browser.wait_for("document.activeElement?.id === 'token'").await;
    check(&browser, "sign in").await;
    sign_in(&browser, &url).await;
    let talker = format!("#/pods/default/{}", world.pod_name("talker"));
    for (view, shown) in [
        ("#/", "Needs attention"),
        ("#/pods", &*world.pod_name("talker")),
        (&talker, "line-1"),
        ("#/events", "Started container"),
        ("#/images", "busybox"),
        ("#/volumes", "scratch"),
    ] {
        browser.run(&format!("location.hash = {}", json!(view))).await;
        browser.wait_for_text(shown).await;
        check(&browser, view).await;
    }
    // Tab reaches the link that skips the navigation first.
    sign_in(&browser, &url).await;
    browser.press(TAB).await;
    browser.wait_for("document.activeElement?.id === 'skip'").await;
    browser.press(ENTER).await;
    browser.wait_for("document.activeElement?.id === 'main'").await;
}

/// Opens the URL with a token and waits until the page shows live data.
async fn sign_in(browser: &Browser, url: &str) {
    browser.open(url).await;
    browser.wait_for("document.getElementById('link')?.textContent === 'Live'").await;
}

/// Checks the page at all sizes and in all colours: no violation, and no scrolling to the side.
async fn check(browser: &Browser, view: &str) {
    for look in LOOKS {
        browser.set_look(look).await;
        assert_eq!(browser.violations().await, [""; 0], "{view} {look:?}");
        let overflow =
            "return Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth)";
        assert_eq!(browser.run(overflow).await, 0, "{view} {look:?}");
    }
}
