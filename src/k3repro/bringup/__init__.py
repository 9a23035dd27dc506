"""Bring-up of a serve: plan, rules, preflight, launch, readiness, health, tear-down (docs/bringup.md)."""

from k3repro.bringup._cluster import CLUSTER_KEYS, ROLES, Cluster, Mount, Node, load_cluster, parse_cluster
from k3repro.bringup._plan import Launch, Plan, RouterLaunch, container_argv, make_plan, router_argv
from k3repro.bringup._recipe import SECTIONS, Choice, Knob, Recipe, load_recipe
from k3repro.bringup._router import Substitution, router_flags_of
from k3repro.bringup._script import dockerfile, hand_scripts, launch_script, router_script

__all__ = [
    "CLUSTER_KEYS",
    "ROLES",
    "SECTIONS",
    "Choice",
    "Cluster",
    "Knob",
    "Launch",
    "Mount",
    "Node",
    "Plan",
    "Recipe",
    "RouterLaunch",
    "Substitution",
    "container_argv",
    "dockerfile",
    "hand_scripts",
    "launch_script",
    "load_cluster",
    "load_recipe",
    "make_plan",
    "parse_cluster",
    "router_argv",
    "router_flags_of",
    "router_script",
]
