"""The manifests of deploy/kubernetes are what Kubernetes' schemas allow, in the versions between these two; their containers have no rights. Nothing
here says that they work on a cluster."""
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
    sys.exit(SKIPPED)


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


def problems():
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
