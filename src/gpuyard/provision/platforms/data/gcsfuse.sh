# Cloud Storage FUSE, from Google's repository.
if ! command -v gcsfuse >/dev/null; then
  echo "deb [signed-by=/usr/share/keyrings/cloud.google.asc] https://packages.cloud.google.com/apt gcsfuse-$(lsb_release -c -s) main" \
    >/etc/apt/sources.list.d/gcsfuse.list
  curl -fsSL https://packages.cloud.google.com/apt/doc/apt-key.gpg -o /usr/share/keyrings/cloud.google.asc
  apt-get update -q
  apt-get install -q -y gcsfuse
fi
