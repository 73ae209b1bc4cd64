//! Environment variables of the API server's Service, as the stock kubelet generates them.

use k8s_openapi::api::core::v1::{Service, ServicePort};

/// Names and values of the variables. There are none for a Service without cluster IP or ports.
pub fn of(service: &Service) -> Vec<(String, String)> {
    let Some(spec) = &service.spec else { return Vec::new() };
    let Some(address) = spec.cluster_ip.as_deref().filter(|ip| !matches!(*ip, "" | "None")) else {
        return Vec::new();
    };
    let ports: &[ServicePort] = spec.ports.as_deref().unwrap_or_default();
    let Some(first) = ports.first() else { return Vec::new() };
    let name = prefix(service.metadata.name.as_deref().unwrap_or_default());
    let mut found = vec![
        (format!("{name}_SERVICE_HOST"), address.to_owned()),
        (format!("{name}_SERVICE_PORT"), first.port.to_string()),
    ];
    for port in ports {
        if let Some(of_port) = port.name.as_deref().filter(|of_port| !of_port.is_empty()) {
            found.push((format!("{name}_SERVICE_PORT_{}", prefix(of_port)), port.port.to_string()));
        }
    }
    let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    for (index, port) in ports.iter().enumerate() {
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        let url = format!("{}://{host}:{}", protocol.to_lowercase(), port.port);
        if index == 0 {
            found.push((format!("{name}_PORT"), url.clone()));
        }
        let of_port = format!("{name}_PORT_{}_{}", port.port, protocol.to_uppercase());
        found.push((of_port.clone(), url));
        found.push((format!("{of_port}_PROTO"), protocol.to_lowercase()));
        found.push((format!("{of_port}_PORT"), port.port.to_string()));
        found.push((format!("{of_port}_ADDR"), address.to_owned()));
    }
    found
}

fn prefix(name: &str) -> String {
    name.to_uppercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    //! Tests of generated variables.
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::{Value, json};

    use super::*;

    fn shown(spec: Value) -> String {
        let service = json!({"metadata": {"name": "kubernetes"}, "spec": spec});
        let found = of(&serde_json::from_value(service).unwrap());
        found.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn api_server_env_vars_are_the_stock_ones() {
        let ports = json!([{"name": "https", "port": 443, "protocol": "TCP"}]);
        let expected = "KUBERNETES_SERVICE_HOST=10.96.0.1 KUBERNETES_SERVICE_PORT=443 KUBERNETES_SERVICE_PORT_HTTPS=443 \
                        KUBERNETES_PORT=tcp://10.96.0.1:443 KUBERNETES_PORT_443_TCP=tcp://10.96.0.1:443 \
                        KUBERNETES_PORT_443_TCP_PROTO=tcp KUBERNETES_PORT_443_TCP_PORT=443 \
                        KUBERNETES_PORT_443_TCP_ADDR=10.96.0.1";
        assert_eq!(shown(json!({"clusterIP": "10.96.0.1", "ports": ports})), expected);
        assert!(shown(json!({"clusterIP": "fd00::1", "ports": ports})).contains("tcp://[fd00::1]:443"));
        for nothing in
            [json!({}), json!({"clusterIP": "None", "ports": ports}), json!({"clusterIP": "10.96.0.1"})]
        {
            assert_eq!(shown(nothing), "");
        }
    }
}
