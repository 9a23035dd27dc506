"""Bring-up of a serve: plan, rules, preflight, launch, readiness, health, tear-down (docs/bringup.md)."""

from k3repro.bringup import _doctor_site  # noqa: F401  its checks register themselves
from k3repro.bringup._by_hand import started_by_hand
from k3repro.bringup._cluster import (
    CLUSTER_KEYS,
    ROLES,
    Cluster,
    Mount,
    Node,
    find_pipelines,
    load_cluster,
    parse_cluster,
)
from k3repro.bringup._doctor import CHECKS, Doctor, DoctorCell, examine, judge_facts
from k3repro.bringup._down import Down, tear_down
from k3repro.bringup._effects import refuse_without_effect
from k3repro.bringup._executors import Executor, Local, Result, Slurm, Ssh, make_executor, require_extra
from k3repro.bringup._facts import ServeFacts, read_facts
from k3repro.bringup._gate import gate_serve
from k3repro.bringup._hand import hand_scripts
from k3repro.bringup._node_status import Owner, RoleStatus
from k3repro.bringup._plan import (
    Launch,
    Plan,
    RouterLaunch,
    container_argv,
    folded,
    inside_image,
    make_plan,
    router_argv,
)
from k3repro.bringup._probe_node import NodeFacts, arch_name, probe_script, read_probe
from k3repro.bringup._recipe import SECTIONS, Choice, Knob, Recipe, load_recipe
from k3repro.bringup._record import seal_bring_up
from k3repro.bringup._router import Substitution, router_flags_of
from k3repro.bringup._rule import RULES, Broken, Rule
from k3repro.bringup._rules import check_plan
from k3repro.bringup._rules_engine import launch_facts
from k3repro.bringup._script import dockerfile, launch_script, router_script
from k3repro.bringup._sealed import Failure, failures, seal_plan, seal_rules
from k3repro.bringup._slurm import step
from k3repro.bringup._state import State, StateFile
from k3repro.bringup._sync import diagram, doctor, start, stop, watch_once
from k3repro.bringup._up import bring_up, cluster_text_of, first_errors, look_at
from k3repro.bringup._watcher import Look, Watcher
from k3repro.spec import EngineRule, engine_rules, model_facts, rules_for

__all__ = [
    "CHECKS",
    "CLUSTER_KEYS",
    "ROLES",
    "RULES",
    "SECTIONS",
    "Broken",
    "Choice",
    "Cluster",
    "Doctor",
    "DoctorCell",
    "Down",
    "EngineRule",
    "Executor",
    "Failure",
    "Knob",
    "Launch",
    "Local",
    "Look",
    "Mount",
    "Node",
    "NodeFacts",
    "Owner",
    "Plan",
    "Recipe",
    "Result",
    "RoleStatus",
    "RouterLaunch",
    "Rule",
    "ServeFacts",
    "Slurm",
    "Ssh",
    "State",
    "StateFile",
    "Substitution",
    "Watcher",
    "arch_name",
    "bring_up",
    "check_plan",
    "cluster_text_of",
    "container_argv",
    "diagram",
    "dockerfile",
    "doctor",
    "engine_rules",
    "examine",
    "failures",
    "find_pipelines",
    "first_errors",
    "folded",
    "gate_serve",
    "hand_scripts",
    "inside_image",
    "judge_facts",
    "launch_facts",
    "launch_script",
    "load_cluster",
    "load_recipe",
    "look_at",
    "make_executor",
    "make_plan",
    "model_facts",
    "parse_cluster",
    "probe_script",
    "read_facts",
    "read_probe",
    "refuse_without_effect",
    "require_extra",
    "router_argv",
    "router_flags_of",
    "router_script",
    "rules_for",
    "seal_bring_up",
    "seal_plan",
    "seal_rules",
    "start",
    "started_by_hand",
    "step",
    "stop",
    "tear_down",
    "watch_once",
]
