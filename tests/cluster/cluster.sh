#!/bin/bash
# Four hosts on one machine: network namespaces k3t1..k3t4 with sshd, and Slurm over them. Needs root.
# Usage: cluster.sh up DIR | cluster.sh slurm DIR | cluster.sh down DIR
set -eu
DIR=$2
export PATH=$PATH:/usr/sbin:/sbin
SSHD=$(command -v sshd)

up() {
  mkdir -p "$DIR/etc" /run/sshd
  chmod 755 "$DIR"
  ssh-keygen -q -t ed25519 -N '' -f "$DIR/id"
  ssh-keygen -q -t ed25519 -N '' -f "$DIR/host"
  cp "$DIR/id.pub" "$DIR/authorized"
  ip link add k3tbr type bridge
  ip addr add 10.78.0.254/24 dev k3tbr
  ip link set k3tbr up
  for i in 1 2 3 4; do
    ip netns add k3t$i
    ip link add k3tv$i type veth peer name eth0 netns k3t$i
    ip link set k3tv$i master k3tbr up
    ip -n k3t$i addr add 10.78.0.$i/24 dev eth0
    ip -n k3t$i link set eth0 up
    ip -n k3t$i link set lo up
    echo "10.78.0.$i $(cut -d' ' -f1,2 "$DIR/host.pub")" >> "$DIR/known_hosts"
    nsenter --net=/run/netns/k3t$i unshare --uts sh -c "hostname k3t$i; exec $SSHD -f /dev/null -h $DIR/host \
      -o ListenAddress=10.78.0.$i -o AuthorizedKeysFile=$DIR/authorized -o PidFile=$DIR/sshd$i.pid \
      -o StrictModes=no -o UsePAM=no -o PasswordAuthentication=no -o MaxStartups=50 -E $DIR/sshd$i.log"
  done
}

slurm() {
  mkdir -p "$DIR/state" "$DIR/munge" "$DIR/spool"
  chown munge:munge "$DIR/munge" && chmod 755 "$DIR/munge"
  head -c 1024 /dev/urandom > "$DIR/munge/key" && chown munge:munge "$DIR/munge/key" && chmod 400 "$DIR/munge/key"
  setpriv --reuid=munge --regid=munge --clear-groups munged --force --key-file="$DIR/munge/key" \
    --socket="$DIR/munge/socket" --pid-file="$DIR/munge/pid" --log-file="$DIR/munge/log" --seed-file="$DIR/munge/seed"
  cat > "$DIR/slurm.conf" <<CONF
ClusterName=k3t
SlurmctldHost=$(hostname -s)(10.78.0.254)
SlurmUser=root
SlurmctldPort=16817
SlurmdPort=16818
AuthType=auth/munge
AuthInfo=socket=$DIR/munge/socket
CredType=cred/munge
StateSaveLocation=$DIR/state
SlurmdSpoolDir=$DIR/spool/%n
SlurmdPidFile=$DIR/slurmd-%n.pid
SlurmctldPidFile=$DIR/slurmctld.pid
SlurmdLogFile=$DIR/slurmd-%n.log
SlurmctldLogFile=$DIR/slurmctld.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,sched_interval=1
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
  for i in 1 2 3 4; do
    echo "NodeName=k3t$i NodeAddr=10.78.0.$i NodeHostname=k3t$i CPUs=$(nproc) RealMemory=1000 State=UNKNOWN" >> "$DIR/slurm.conf"
  done
  echo "ConstrainCores=no" > "$DIR/cgroup.conf"
  export SLURM_CONF=$DIR/slurm.conf
  slurmctld
  for i in 1 2 3 4; do
    nsenter --net=/run/netns/k3t$i unshare --uts sh -c "hostname k3t$i; exec slurmd -N k3t$i"
  done
  for n in $(seq 100); do
    [ "$(sinfo --noheader --format=%D --states=idle 2>/dev/null)" = 4 ] && return
    sleep 0.2
  done
  sinfo; tail -n 5 "$DIR"/slurm*.log; return 1
}

down() {
  for pid in "$DIR"/slurmd-*.pid "$DIR/slurmctld.pid" "$DIR/munge/pid" "$DIR"/sshd*.pid; do
    [ -f "$pid" ] && kill "$(cat "$pid")" 2>/dev/null || true
  done
  for i in 1 2 3 4; do
    for pid in $(ip netns pids k3t$i 2>/dev/null); do kill "$pid" 2>/dev/null || true; done
    ip netns del k3t$i 2>/dev/null || true
    ip link del k3tv$i 2>/dev/null || true
  done
  ip link del k3tbr 2>/dev/null || true
}

"$1"
