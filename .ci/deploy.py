"""What no single schema can tell about deploy/: ECS by the API's own model, IAM by the list of all actions, Grafana's
layout and queries, and whether the Kubernetes objects fit each other.

Argument: a folder with base.yaml and monitoring.yaml as kustomize rendered them, and rule.yaml. Writes
dashboard-queries.yaml there, for promtool.
"""

import json
import pathlib
import re
import sys
import tomllib

import botocore.session
import parliament
import yaml
from botocore.validate import ParamValidator

DEPLOY = pathlib.Path("deploy")
# Grafana puts values in place of these.
VARIABLES = {"$__rate_interval": "5m"}


def need(holds, what):
    if not holds:
        sys.exit(f"deploy: {what}")


def ecs():
    """RegisterTaskDefinition would take the file: every key is known, of the right type, and none is missing."""
    task = json.loads((DEPLOY / "ecs/task-definition.json").read_text())
    model = botocore.session.get_session().get_service_model("ecs")
    shape = model.operation_model("RegisterTaskDefinition").input_shape

    def report(of):
        return ParamValidator().validate(of, shape).generate_report()

    need(not report(task), f"task-definition.json: {report(task)}")
    # The check itself: a misspelt key and a wrong type are noticed.
    container = task["containerDefinitions"][0]
    for wrong in ({"stopTimeOut": 60}, {"stopTimeout": "60"}):
        need(report({**task, "containerDefinitions": [{**container, **wrong}]}), f"ECS's model lets {wrong} pass")


def iam():
    """Every action exists and acts on such a resource."""
    policy = (DEPLOY / "iam/policy.json").read_text()

    def findings(text):
        return [str(finding) for finding in parliament.analyze_policy_string(text).findings]

    need(not findings(policy), f"policy.json: {findings(policy)}")
    for right, wrong in (("GetRecords", "GetRecord"), (":table/", ":stream/")):
        need(findings(policy.replace(right, wrong)), f"parliament lets {wrong} pass")


def overlap(a, b):
    return a["x"] < b["x"] + b["w"] and b["x"] < a["x"] + a["w"] and a["y"] < b["y"] + b["h"] and b["y"] < a["y"] + a["h"]


def grafana(scratch):
    """Panels have ids of their own, lie side by side within the grid, and ask only variables that exist."""
    dashboard = json.loads((DEPLOY / "grafana/dashboard.json").read_text())
    panels = dashboard["panels"]
    ids = [panel["id"] for panel in panels]
    need(len(ids) == len(set(ids)), "dashboard.json: two panels have one id")
    for number, panel in enumerate(panels):
        place = panel["gridPos"]
        need(place["x"] + place["w"] <= 24, f"panel {panel['title']} leaves the grid")
        for other in panels[:number]:
            need(not overlap(place, other["gridPos"]), f"panels {panel['title']} and {other['title']} overlap")
    names = {"$" + variable["name"] for variable in dashboard["templating"]["list"]}
    rules = []
    for panel in panels:
        need(panel["type"] == "row" or panel.get("description"), f"panel {panel['title']} says nothing about itself")
        for target in panel.get("targets", []):
            query = target["expr"]
            used = set(re.findall(r"\$\w+", query))
            need(used <= names | VARIABLES.keys(), f"panel {panel['title']}: unknown variables {used - names}")
            for variable, value in VARIABLES.items():
                query = query.replace(variable, value)
            rules.append({"record": f"panel:{panel['id']}:{target['refId']}", "expr": query})
    need(len(rules) > 30, f"dashboard.json has only {len(rules)} queries")
    groups = {"groups": [{"name": "dashboard", "rules": rules}]}
    (scratch / "dashboard-queries.yaml").write_text(yaml.safe_dump(groups))


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(ms|s|m)", text).groups()
    return int(number) * {"ms": 0.001, "s": 1, "m": 60}[unit]


def selects(labels, wanted):
    return wanted.items() <= labels.items()


def kubernetes(scratch):
    """The rendered objects know each other: labels, ports, names, deadlines."""
    objects = {it["kind"]: it for it in yaml.safe_load_all((scratch / "monitoring.yaml").read_text())}
    deployment, service = objects["Deployment"], objects["Service"]
    pod = deployment["spec"]["template"]
    worker = pod["spec"]["containers"][0]
    labels = pod["metadata"]["labels"]
    for kind, selector in (
        ("Deployment", deployment["spec"]["selector"]["matchLabels"]),
        ("Service", service["spec"]["selector"]),
        ("PodDisruptionBudget", objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]),
        ("NetworkPolicy", objects["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"]),
    ):
        need(selects(labels, selector), f"{kind} does not select the pods")
    for spread in pod["spec"]["topologySpreadConstraints"]:
        need(selects(labels, spread["labelSelector"]["matchLabels"]), "a topology spread constraint counts other pods")
    ports = {port["name"]: port["containerPort"] for port in worker["ports"]}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        need(worker[probe]["httpGet"]["port"] in ports, f"{probe} asks a port that is not there")
    need(service["spec"]["ports"][0]["targetPort"] in ports, "the Service leads nowhere")
    config_map = objects["ConfigMap"]
    mounted = [volume["configMap"]["name"] for volume in pod["spec"]["volumes"] if "configMap" in volume]
    need(mounted == [config_map["metadata"]["name"]], "the pods mount another ConfigMap")
    config = tomllib.loads(config_map["data"]["worker.toml"])
    need(config["admin"]["listen"] == f"0.0.0.0:{ports['admin']}", "the worker listens elsewhere")
    grace = pod["spec"]["terminationGracePeriodSeconds"]
    need(seconds(config["shutdown"]["deadline"]) + 5 < grace, "the pod is killed before it has drained")
    need(pod["spec"]["serviceAccountName"] == objects["ServiceAccount"]["metadata"]["name"], "no such ServiceAccount")

    monitor = objects["ServiceMonitor"]["spec"]
    need(set(monitor) == {"selector", "endpoints"}, "ServiceMonitor: unknown keys")
    need(selects(service["metadata"]["labels"], monitor["selector"]["matchLabels"]), "ServiceMonitor selects nothing")
    names = [port["name"] for port in service["spec"]["ports"]]
    need(all(endpoint["port"] in names for endpoint in monitor["endpoints"]), "ServiceMonitor asks no port")


def operator_rule(scratch):
    rule = yaml.safe_load((scratch / "rule.yaml").read_text())
    alerts = yaml.safe_load((DEPLOY / "prometheus/alerts.yaml").read_text())
    need(rule["spec"] == alerts, "wrapped as a PrometheusRule the alerts are not the same")


def main():
    scratch = pathlib.Path(sys.argv[1])
    ecs()
    iam()
    grafana(scratch)
    kubernetes(scratch)
    operator_rule(scratch)
    print("ECS, IAM, Grafana, Kubernetes: ok")


main()
