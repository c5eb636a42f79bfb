# Desktop: Xfce on one virtual display per user (Chrome Remote Desktop), with OpenGL on the GPU through VirtualGL's
# EGL back end, which needs no X server on the GPU and shares it among users. No screen locker is installed: users
# log in with OS Login and have no password to unlock it.
if [ ! -x /opt/google/chrome-remote-desktop/start-host ]; then
  apt-get update -q
  apt-get install -q -y --no-install-recommends xfce4 xfce4-terminal xfdesktop4 desktop-base dbus-x11 \
    x11-utils x11-xserver-utils xserver-xorg-core xserver-xorg-video-dummy mesa-utils fonts-dejavu
  curl -fsSL "$VIRTUALGL_URL" -o "$FOLDER/virtualgl.deb"
  echo "$VIRTUALGL_SHA256  $FOLDER/virtualgl.deb" | sha256sum --check
  curl -fsSL "$REMOTE_DESKTOP_URL" -o "$FOLDER/remote-desktop.deb"
  apt-get install -q -y "$FOLDER/virtualgl.deb" "$FOLDER/remote-desktop.deb"
  /opt/VirtualGL/bin/vglserver_config +egl +f
  systemctl mask sleep.target suspend.target hibernate.target hybrid-sleep.target
fi
nvidia-smi -L # loads the module again, in case the step above unloaded it

# A session slot is a lock file. Users need no administrator rights: they may start the desktop service only.
echo 'd /run/desks 0755 root root -' >/etc/tmpfiles.d/desks.conf
for seat in $(seq 0 $((SEATS - 1))); do echo "f /run/desks/$seat 0644 root root -"; done >>/etc/tmpfiles.d/desks.conf
systemd-tmpfiles --create /etc/tmpfiles.d/desks.conf
rule='/usr/bin/systemctl ^enable --now chrome-remote-desktop@[a-z0-9_.-]+$'
echo "ALL ALL=(root) NOPASSWD: $rule" >"$FOLDER/sudoers"
visudo --check --file="$FOLDER/sudoers"
install -m 0440 "$FOLDER/sudoers" /etc/sudoers.d/desks
echo "export CHROME_REMOTE_DESKTOP_DEFAULT_DESKTOP_SIZES=$SIZES" >/etc/profile.d/desks.sh

cat >/etc/chrome-remote-desktop-session <<'SESSION'
#!/bin/bash
# Takes the first free slot; slots are assigned to GPUs round-robin. The lock is released when the session ends.
seats=(/run/desks/*)
for index in "${!seats[@]}"; do
  exec {lock}<"${seats[$index]}"
  if flock --nonblock "$lock"; then
    gpus=$(nvidia-smi -L | wc -l)
    export VGL_DISPLAY=egl$((index % gpus))
    unset LD_LIBRARY_PATH # it selects OpenGL on the CPU
    exec /etc/X11/Xsession "/opt/VirtualGL/bin/vglrun +wm /usr/bin/xfce4-session"
  fi
  exec {lock}<&-
done
exec xmessage -center "All ${#seats[@]} sessions on $(hostname -s) are in use: register on another machine."
SESSION
chmod 0755 /etc/chrome-remote-desktop-session

# Check rendering as an unprivileged user.
for gpu in $(seq 0 $(($(nvidia-smi -L | wc -l) - 1))); do
  runuser -u nobody -- /opt/VirtualGL/bin/eglinfo "egl$gpu" >/dev/null
  echo "egl$gpu renders"
done
nvidia-smi -q | grep -m 2 -i 'license status\|product name' || true
echo "$SEATS user sessions are ready"
