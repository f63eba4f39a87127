#!/bin/bash
# The way in for a VM of slurm-flex: mounts, key, checks, the pool's own script, and slurmd last.
#
# Compute Engine's guest agent runs it at every boot, as root. `slurm-flex apply` puts it into the
# instance template with the lines between the two marks filled in; nothing below them differs
# from pool to pool. Whatever goes wrong is said on the serial console as
#     slurm-flex: FAILED: <step>: <reason>
# and slurmd isn't started: a node that isn't fit never registers.

# ---- site ----
CLUSTER=demo
POOL=a3u
ROLE=compute
CONF_SERVER=controller
AUTH=munge
KEY_SOURCE=
GPUS=8
INSTALL_DIR=/opt/slurm-flex
SLURMD_OPTIONS=()
MOUNTS=('nfs 10.0.0.2:/home /home')
# ---- end of site ----

set -u -o pipefail
shopt -s nullglob
umask 022
export PATH="$PATH:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin:/opt/slurm/sbin"
METADATA=${SLURM_FLEX_METADATA:-http://metadata.google.internal}/computeMetadata/v1
SECRETS=${SLURM_FLEX_SECRETS:-https://secretmanager.googleapis.com}/v1
CONSOLE=${SLURM_FLEX_CONSOLE:-/dev/ttyS0}
DRIVER_PATIENCE=${SLURM_FLEX_DRIVER_PATIENCE:-180}
CONTROLLER_PATIENCE=${SLURM_FLEX_CONTROLLER_PATIENCE:-120}
STEP=start
WORK=$(mktemp -d) || exit 1
trap 'rm -rf "$WORK"' EXIT

say() {
    printf 'slurm-flex: %s\n' "$*"
    # The guest agent copies our output to the console only once we are done.
    { [ -w "$CONSOLE" ] && printf 'slurm-flex: %s\r\n' "$*" >"$CONSOLE"; } 2>/dev/null
    return 0
}

fail() {
    say "FAILED: $STEP: $*"
    exit 1
}

# attempt COMMAND...: run it; its last words are the reason if it fails.
attempt() {
    local words
    words=$("$@" 2>&1) || fail "$1: $(tail -n 1 <<<"${words:-no word from it}")"
}

# fetch URL FILE HEADER: three tries; curl, or Python where there is no curl. What is said instead
# of the file is left in FILE.refused.
fetch() {
    local try code
    rm -f "$2.refused"
    for try in 1 2 3; do
        if command -v curl >/dev/null; then
            code=$(curl --silent --show-error --max-time 20 --header "$3" --output "$2.refused" \
                --write-out '%{http_code}' "$1") && [ "$code" = 200 ] &&
                mv "$2.refused" "$2" && return 0
            echo "$1: HTTP $code" >&2
        else
            python3 - "$@" <<'PYTHON' && return 0
import sys, urllib.error, urllib.request
url, file, header = sys.argv[1:4]
request = urllib.request.Request(url, headers=dict([header.split(": ", 1)]))
try:
    with urllib.request.urlopen(request, timeout=20) as answer:
        data = answer.read()
except urllib.error.HTTPError as error:
    with open(file + ".refused", "wb") as out:
        out.write(error.read())
    sys.exit(f"{url}: {error}")
except OSError as error:
    sys.exit(f"{error}")
with open(file, "wb") as out:
    out.write(data)
PYTHON
        fi
        [ "$try" = 3 ] || sleep "$try"
    done
    return 1
}

# metadata PATH: prints a value of the metadata server.
metadata() {
    fetch "$METADATA/$1" "$WORK/answer" "Metadata-Flavor: Google" && cat "$WORK/answer"
}

has_systemd() { [ -d /run/systemd/system ]; }

# ---- who am I ----------------------------------------------------------------------------------

find_name() {
    STEP=name
    NAME=$(metadata instance/name) || fail "the metadata server doesn't answer"
    case $NAME in
        "$CLUSTER-$POOL"-*) ;;
        *) fail "the VM is called $NAME, which is no node of $CLUSTER-$POOL" ;;
    esac
    INSTANCE_ID=$(metadata instance/id) || fail "the metadata server doesn't tell the instance id"
    MACHINE_TYPE=$(metadata instance/machine-type) || MACHINE_TYPE=
    MACHINE_TYPE=${MACHINE_TYPE##*/}
}

# ---- file systems ------------------------------------------------------------------------------

mount_all() {
    STEP=mounts
    local kind source target options
    for line in ${MOUNTS[@]+"${MOUNTS[@]}"}; do
        read -r kind source target <<<"$line"
        mountpoint -q "$target" && continue
        options=defaults
        case $kind in
            nfs) options=hard,timeo=600,retrans=3,rsize=1048576,wsize=1048576,resvport ;;
            lustre) options=flock ;;
        esac
        command -v "mount.$kind" >/dev/null ||
            fail "$source: the image has no mount.$kind (nfs-common, lustre-client)"
        attempt mkdir -p "$target"
        local try words
        for try in 1 2 3 4 5; do
            words=$(mount -t "$kind" -o "$options" "$source" "$target" 2>&1) && break
            [ "$try" = 5 ] && fail "$source on $target: $(tail -n 1 <<<"$words")"
            sleep "$try"
        done
        say "mounted $source on $target"
    done
}

# ---- the key -----------------------------------------------------------------------------------

find_key() {
    STEP=key
    local file=$WORK/key
    case $KEY_SOURCE in
        '') return 0 ;;
        secret:*) fetch_secret "${KEY_SOURCE#secret:}" "$file" ;;
        nfs:*)
            [ -r "${KEY_SOURCE#nfs:}" ] || fail "${KEY_SOURCE#nfs:} can't be read"
            attempt cp "${KEY_SOURCE#nfs:}" "$file"
            ;;
        metadata:*)
            local name=${KEY_SOURCE#metadata:}
            { metadata "instance/attributes/$name" || metadata "project/attributes/$name"; } \
                2>/dev/null >"$WORK/coded" || fail "there is no metadata $name"
            base64 -d <"$WORK/coded" >"$file" 2>/dev/null || fail "metadata $name isn't base64"
            ;;
        *) fail "$KEY_SOURCE is no place for a key" ;;
    esac
    local size
    size=$(stat -c %s "$file")
    [ "$size" -ge 32 ] || fail "the key of $KEY_SOURCE has $size bytes, at least 32 are needed"
    if [ "$AUTH" = slurm ]; then
        place_key "$file" /etc/slurm/slurm.key slurm 600
    else
        place_key "$file" /etc/munge/munge.key munge 400
    fi
}

fetch_secret() {
    local name=$1 token
    case $name in */versions/*) ;; *) name=$name/versions/latest ;; esac
    metadata instance/service-accounts/default/token >"$WORK/token" ||
        fail "the VM has no service account"
    token=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["access_token"])' \
        <"$WORK/token") || fail "the metadata server gave no token"
    fetch "$SECRETS/$name:access" "$WORK/secret" "Authorization: Bearer $token" ||
        fail "$name can't be read ($(why_not "$WORK/secret.refused"))"
    python3 -c 'import base64, json, sys
sys.stdout.buffer.write(base64.b64decode(json.load(sys.stdin)["payload"]["data"]))' \
        <"$WORK/secret" >"$2" || fail "$name has no payload"
}

# why_not FILE: what to do about Secret Manager's refusal.
why_not() {
    local project
    project=$(python3 -c 'import json, sys
for one in json.load(open(sys.argv[1]))["error"].get("details", ()):
    if one.get("reason") == "SERVICE_DISABLED":
        print(one["metadata"]["consumer"].split("/")[-1])' "$1" 2>/dev/null)
    if [ -n "$project" ]; then
        echo "gcloud services enable secretmanager.googleapis.com --project=$project"
    else
        echo "roles/secretmanager.secretAccessor for the VM's account?"
    fi
}

# place_key FROM TO OWNER MODE: whole or not at all, and never readable by others in between.
place_key() {
    local folder owner=root
    folder=$(dirname "$2")
    id -u "$3" >/dev/null 2>&1 && owner=$3
    attempt mkdir -p "$folder"
    # munged refuses a key in a folder that others may write to, or that it can't enter.
    [ "$AUTH" = munge ] && attempt install -d -m 700 -o "$owner" "$folder"
    attempt install -m "$4" -o "$owner" "$1" "$2.new"
    attempt mv "$2.new" "$2"
}

start_munge() {
    [ "$AUTH" = munge ] || return 0
    STEP=munge
    command -v munged >/dev/null || fail "the image has no munged"
    if has_systemd; then
        attempt systemctl restart munge
    elif ! munge -n >/dev/null 2>&1; then
        local folder
        for folder in /run/munge /var/log/munge /var/lib/munge; do
            attempt install -d -m 755 -o munge "$folder"
        done
        attempt runuser -u munge -- munged
    fi
    local try
    for try in 1 2 3 4 5; do
        munge -n >/dev/null 2>&1 && return 0
        sleep "$try"
    done
    fail "munged doesn't answer: $(munge -n 2>&1 | tail -n 1)"
}

# ---- what slurm-flex brings --------------------------------------------------------------------

unpack_programs() {
    STEP=programs
    local coded
    coded=$(payload)
    if [ -n "$coded" ]; then
        attempt mkdir -p "$INSTALL_DIR"
        base64 -d <<<"$coded" | tar -xzf - -C "$INSTALL_DIR" || fail "can't unpack the checks"
    fi
    attempt mkdir -p /etc/slurm-flex
    node_json >"/etc/slurm-flex/node.json.new" || fail "can't write /etc/slurm-flex/node.json"
    attempt mv /etc/slurm-flex/node.json.new /etc/slurm-flex/node.json
    site_programs
}

# ---- GPUs and the pool's own script ------------------------------------------------------------

await_gpus() {
    [ "$GPUS" -gt 0 ] || return 0
    STEP=gpus
    local until=$((SECONDS + DRIVER_PATIENCE)) seen
    command -v nvidia-smi >/dev/null || fail "the image has no NVIDIA driver (no nvidia-smi)"
    while :; do
        seen=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')
        [ "$seen" -ge "$GPUS" ] && break
        [ "$SECONDS" -lt "$until" ] || fail "$seen of $GPUS GPUs answer"
        sleep 5
    done
    say "$seen GPUs answer"
}

run_pool_script() {
    STEP="the pool's startup_script"
    local file=$WORK/pool-script status
    pool_script >"$file"
    [ -s "$file" ] || return 0
    # It may name an interpreter; without one it is a shell script, as Compute Engine has it.
    head -c 2 "$file" | grep -q '^#!' || sed -i '1i #!/bin/bash' "$file"
    chmod 700 "$file"
    NODE_NAME=$NAME "$file"
    status=$?
    [ "$status" = 0 ] || fail "ended with $status"
}

# ---- Slurm -------------------------------------------------------------------------------------

# slurm_has PROGRAM YYMM: the program is of that release or a later one (2311 is 23.11).
slurm_has() {
    local version
    version=$("$1" -V 2>/dev/null | grep -oE '[0-9]+\.[0-9]+' | head -n 1)
    [ -n "$version" ] && [ "$((10#${version/./}))" -ge "$2" ]
}

start_slurm() {
    local program=slurmd options=(-D -N "$NAME" --conf-server "$CONF_SERVER")
    if [ "$ROLE" = login ]; then
        program=sackd
        options=(-D --conf-server "$CONF_SERVER")
    fi
    STEP=$program
    if ! command -v "$program" >/dev/null; then
        [ "$ROLE" = login ] || fail "the image has no slurmd"
        say "the image has no sackd (Slurm 24.05): slurm.conf must come with it or from /home"
        return 0
    fi
    if [ "$program" = slurmd ]; then
        slurm_has slurmd 2311 &&
            options+=("--instance-id=$INSTANCE_ID" "--instance-type=$MACHINE_TYPE")
        options+=(${SLURMD_OPTIONS[@]+"${SLURMD_OPTIONS[@]}"})
    fi
    # Where SlurmdSpoolDir and SlurmdLogFile usually lie: slurmd makes the last folder alone.
    attempt mkdir -p /var/spool/slurmd /var/lib/slurm /var/log/slurm
    if has_systemd; then
        run_by_systemd "$(command -v "$program")" "${options[@]}"
    else
        run_alone "$program" "${options[@]}"
    fi
    say "$program runs as $NAME"
}

# A unit of our own: Debian's slurmd.service wants a local slurm.conf.
run_by_systemd() {
    local unit=slurm-flex-$STEP
    {
        printf '[Unit]\nDescription=%s of slurm-flex\n' "$STEP"
        printf 'After=network-online.target munge.service\nConflicts=%s.service\n' "$STEP"
        printf '[Service]\nType=simple\nExecStart='
        printf '%s ' "$@"
        printf '\nKillMode=process\nDelegate=yes\nTasksMax=infinity\nLimitNOFILE=131072\n'
        printf 'LimitMEMLOCK=infinity\nLimitSTACK=infinity\nRuntimeDirectory=slurm\n'
        printf 'RuntimeDirectoryPreserve=yes\nRestart=on-failure\nRestartSec=5\n'
    } >"/etc/systemd/system/$unit.service"
    attempt systemctl daemon-reload
    attempt systemctl restart "$unit"
    await_configuration systemctl is-active --quiet "$unit" || fail "no configuration from" \
        "$CONF_SERVER: $(journalctl -u "$unit" -n 1 -o cat 2>/dev/null)"
}

run_alone() {
    local log=/var/log/slurm/$1.out
    setsid "$@" >>"$log" 2>&1 </dev/null &
    await_configuration kill -0 $! ||
        fail "no configuration from $CONF_SERVER: $(tail -n 1 "$log")"
}

# await_configuration ALIVE...: until slurmd has its files from slurmctld, while ALIVE... is true.
# A daemon that merely waits is left to go on; it may yet succeed.
await_configuration() {
    local until=$((SECONDS + CONTROLLER_PATIENCE))
    while [ "$SECONDS" -lt "$until" ]; do
        sleep 1
        "$@" 2>/dev/null || return 1
        [ -e /run/slurm/conf/slurm.conf ] && return 0
    done
    return 1
}

# ---- filled in by slurm-flex -------------------------------------------------------------------

# ---- programs ----
payload() { :; }
node_json() { printf '{}\n'; }
site_programs() { :; }
pool_script() { :; }
# ---- end of programs ----

find_name
say "$NAME begins"
mount_all
find_key
start_munge
unpack_programs
await_gpus
run_pool_script
start_slurm
