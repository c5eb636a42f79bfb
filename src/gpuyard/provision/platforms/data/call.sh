#!/bin/bash
# Send a request file, or delete the resource that one created, and wait for the operation.
#   bash call.sh FILE URL       POST the file's body
#   bash call.sh --delete URL   DELETE the resource; not an error if it does not exist
# Needs gcloud (logged in), curl and jq. Credentials stay in gcloud.
set -euo pipefail

send() { # METHOD ADDRESS [curl arguments]
  local method=$1 address=$2
  shift 2
  curl --silent --show-error --fail-with-body --request "$method" \
    --header @<(printf 'Authorization: Bearer %s\n' "$(gcloud auth print-access-token)") \
    --header 'Content-Type: application/json' "$@" "$address"
}

finished() { # OPERATION ADDRESS: the URL to poll; empty if there is nothing to wait for
  local host
  host=$(sed -E 's#(https://[^/]+)/.*#\1#' <<<"$2")
  jq -r --arg host "$host" 'if (.kind? // "") == "compute#operation" or (.operationType? // "") != "" then .selfLink
    elif (.name? // "") | startswith("projects/") and contains("/operations/") then $host + "/v" +
      (if $host | test("tpu|run\\.") then "2" else "1" end) + "/" + .name
    else "" end' <<<"$1"
}

wait_for() { # OPERATION ADDRESS
  local operation=$1 address
  address=$(finished "$operation" "$2")
  while [ -n "$address" ]; do
    if jq -e '.error? // empty' <<<"$operation" >/dev/null; then
      jq '.error' <<<"$operation" >&2
      exit 4
    fi
    if jq -e '.status? == "DONE" or .done? == true' <<<"$operation" >/dev/null; then break; fi
    sleep 5
    operation=$(send GET "$address")
  done
}

if [ "$1" = --delete ]; then
  answer=$(send DELETE "$2") || { grep -q '"code": 404' <<<"$answer" && echo "does not exist: $2" && exit 0 || { echo "$answer" >&2; exit 4; }; }
  [ -z "$answer" ] || wait_for "$answer" "$2"
  echo "deleted $2"
else
  answer=$(jq '.body' "$1" | send POST "$2" --data @-) || { echo "$answer" >&2; exit 4; }
  wait_for "$answer" "$2"
  echo "done $1"
fi
