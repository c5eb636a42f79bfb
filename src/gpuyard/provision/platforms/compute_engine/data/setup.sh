# A host that cannot be set up restarts twice, then ends its job: it must not idle until the TTL.
setup_failed() {
  echo "the host could not be set up" >&2
  echo >>"$FOLDER/failures"
  if [ "$(wc -l <"$FOLDER/failures")" -lt 3 ]; then
    sleep 60
    reboot
  else
    release_machines || true
    poweroff
  fi
}
trap setup_failed EXIT
