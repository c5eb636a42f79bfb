# Workstation driver from Google's bucket. The licence comes with the machine: no licence server is configured.
export DEBIAN_FRONTEND=noninteractive
echo 'DPkg::Lock::Timeout "600";' >/etc/apt/apt.conf.d/99-wait-for-the-lock
if ! nvidia-smi -L; then
  apt-get update -q
  apt-get install -q -y build-essential dkms pkg-config libglvnd-dev "linux-headers-$(uname -r)"
  apt-mark hold linux-image-gcp linux-headers-gcp # the module is built for this kernel
  if [ -n "$MODULE_OPTIONS" ]; then echo "options nvidia $MODULE_OPTIONS" >/etc/modprobe.d/nvidia-workstation.conf; fi
  curl -fsSL "$DRIVER_URL" -o "$FOLDER/driver.run"
  echo "$DRIVER_SHA256  $FOLDER/driver.run" | sha256sum --check
  sh "$FOLDER/driver.run" --silent --dkms --kernel-module-type="$KERNEL_MODULE"
  rm "$FOLDER/driver.run"
  nvidia-smi -L
fi
