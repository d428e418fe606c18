"""The manifests of deploy/kubernetes are what Kubernetes' schemas allow, in the versions between these two; their containers have no rights. Nothing
here says that they work on a cluster."""
import os
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
VERSIONS = ("1.28", "1.37")
SKIPPED = 77
# Without a schema: what tools beside Kubernetes read.
OTHERS = {"Kustomization", "ServiceMonitor"}

try:
    import kubernetes_validate
    import yaml
except ImportError:
    print("skipped: PyPI's kubernetes-validate is not there")
    sys.exit(1 if os.environ.get("LONGHAUL_TEST_ALL") else SKIPPED)


def lacks(pod):
    """What is missing that every pod has."""
    if not pod.get("securityContext", {}).get("runAsNonRoot"):
        yield "runAsNonRoot"
    if pod.get("automountServiceAccountToken") is not False:
        yield "automountServiceAccountToken: false"
    if pod.get("terminationGracePeriodSeconds", 0) < 45:
        yield "a terminationGracePeriodSeconds over --drain-timeout"
    for container in pod["containers"]:
        rights = container.get("securityContext", {})
        if rights.get("allowPrivilegeEscalation") is not False or not rights.get("readOnlyRootFilesystem") or \
                rights.get("capabilities") != {"drop": ["ALL"]}:
            yield "a securityContext without rights"
        if "livenessProbe" not in container:
            yield "a livenessProbe"


def problems_of(manifest):
    if manifest["kind"] in OTHERS:
        return
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(manifest, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            yield f"Kubernetes {version}: {error.message}"
    pod = manifest.get("spec", {}).get("template", {}).get("spec")
    if pod:
        yield from (f"lacks {missing}" for missing in lacks(pod))


def service_problems(manifests):
    """Ports that a service or a monitor names, and that no pod or no service of its selector has."""
    def chosen_by(selector, kinds, labels_of):
        return [each for each in manifests if each["kind"] in kinds and selector.items() <= labels_of(each).items()]

    def labels(manifest):
        return manifest["metadata"].get("labels", {})

    def pod_labels(manifest):
        return labels(manifest["spec"]["template"])

    for manifest in manifests:
        kind, spec = manifest["kind"], manifest.get("spec", {})
        if kind == "Service":
            pods = chosen_by(spec["selector"], ("Deployment", "StatefulSet"), pod_labels)
            named = {port["name"] for pod in pods for container in pod["spec"]["template"]["spec"]["containers"] for port in container.get("ports", [])}
            wanted = {port.get("targetPort") for port in spec["ports"]}
        elif kind == "ServiceMonitor":
            services = chosen_by(spec["selector"]["matchLabels"], ("Service",), labels)
            named = set.intersection(*({port.get("name") for port in service["spec"]["ports"]} for service in services)) if services else set()
            wanted = {endpoint["port"] for endpoint in spec["endpoints"]}
        else:
            continue
        for port in sorted(wanted - named):
            yield f"{kind} {manifest['metadata']['name']} names port {port}, which nothing has that it selects"


def problems():
    everything = [manifest for path in sorted(FOLDER.glob("*.yaml")) for manifest in yaml.safe_load_all(path.read_text())]
    yield from service_problems(everything)
    listed = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
    for name in listed:
        if not (FOLDER / name).exists():
            yield f"kustomization.yaml: there is no {name}"
    for path in sorted(FOLDER.glob("*.yaml")):
        for manifest in yaml.safe_load_all(path.read_text()):
            for problem in problems_of(manifest):
                yield f"{path.name}: {manifest['kind']} {manifest.get('metadata', {}).get('name', '')}: {problem}"


def self_test():
    wrong = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": {"ports": [{"port": "eighty"}]}}
    assert list(problems_of(wrong)), "what is no port is found"
    assert list(lacks({"containers": [{}]})), "a container with rights is found"
    service = {"kind": "Service", "metadata": {"name": "x", "labels": {"a": "b"}}, "spec": {"selector": {"c": "d"}, "ports": [{"name": "api", "targetPort": "api"}]}}
    pod = {"metadata": {"labels": {"c": "d"}}, "spec": {"containers": [{"ports": [{"name": "api"}]}]}}
    workload = {"kind": "StatefulSet", "metadata": {"name": "x"}, "spec": {"template": pod}}
    monitor = {"kind": "ServiceMonitor", "metadata": {"name": "x"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "endpoints": [{"port": "api"}]}}
    assert not list(service_problems([service, workload, monitor])), "names that are there"
    assert len(list(service_problems([service, monitor]))) == 1, "a service without pods is found"
    monitor["spec"]["endpoints"] = [{"port": "metrics"}]
    assert len(list(service_problems([service, workload, monitor]))) == 1, "a monitor's port is found"


def main():
    self_test()
    count = 0
    for problem in problems():
        print(problem)
        count += 1
    print(f"{count} problems")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
