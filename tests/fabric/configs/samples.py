"""Small hand-written configurations in the vendors' documented syntax: two leaves, one spine."""

from __future__ import annotations

from gpuyard.fabric.configs.read import ConfigText

JUNOS_CURLY = """\
/* saved by the backup server */
version 23.4X100-D20.7-EVO;
system {
    host-name {name};
    services { ssh; }
}
interfaces {
    et-0/0/0 {
        description "to {peer}";
        mtu 9216;
        unit 0 {
            family inet {
                mtu 9170;
                address {address}/31;
            }
        }
    }
    lo0 { unit 0 { family inet { address {loopback}/32; } } }
}
policy-options {
    policy-statement UP {
        term valley { from { protocol bgp; community ABOVE; } then reject; }
        term rest { then accept; }
    }
    community ABOVE members 0:15;
}
class-of-service {
    classifiers { dscp in { forwarding-class NO-LOSS { loss-priority low code-points af31; } } }
    drop-profiles { ecn { interpolate { fill-level [ 55 90 ]; drop-probability [ 0 100 ]; } } }
    forwarding-classes { class NO-LOSS queue-num 4 no-loss pfc-priority 3; }
    congestion-notification-profile {
        pfc {
            input { dscp { code-point 011010 { pfc; } } }
            output { ieee-802.1 { code-point 011 { flow-control-queue 4; } } }
        }
    }
    interfaces {
        et-* {
            congestion-notification-profile pfc;
            scheduler-map map;
            unit * { classifiers { dscp in; } }
        }
    }
    scheduler-maps { map { forwarding-class NO-LOSS scheduler roce; } }
    schedulers {
        roce {
            drop-profile-map loss-priority any protocol any drop-profile ecn;
            explicit-congestion-notification;
        }
    }
}
routing-options { router-id {loopback}; autonomous-system {asn}; }
protocols {
    bgp {
        group fabric {
            type external;
            export [ UP ];
            bfd-liveness-detection { minimum-interval 1000; multiplier 3; }
            neighbor {neighbour} { peer-as {peer_asn}; }
        }
        multipath { multiple-as; }
    }
}
"""
EOS = """\
! Command: show running-config
! device: {name} (DCS-7060X6-64PE, EOS-4.33.1F)
!
hostname {name}
!
qos map dscp 26 to traffic-class 3
qos map dscp 48 to traffic-class 6
qos map traffic-class 6 to tx-queue 6
!
qos profile ROCE
   qos trust dscp
   priority-flow-control on
   priority-flow-control priority 3 no-drop
   !
   uc-tx-queue 3
      no priority
      bandwidth percent 50
      random-detect ecn minimum-threshold 150 kbytes maximum-threshold 1500 kbytes max-mark-probability 100
   !
   uc-tx-queue 6
      priority strict
!
interface Ethernet1/1
   description to {peer}
   mtu 9214
   speed 400g-4
   no switchport
   ip address {address}/31
   service-profile ROCE
!
interface Loopback0
   ip address {loopback}/32
!
interface Management1
   ip address 192.0.2.1/24
!
ip routing
!
router bgp {asn}
   router-id {loopback}
   maximum-paths 64 ecmp 64
   neighbor UP peer group
   neighbor UP bfd
   neighbor UP route-map UP out
   neighbor {neighbour} peer group UP
   neighbor {neighbour} remote-as {peer_asn}
   !
   address-family ipv4
      neighbor UP activate
      redistribute connected
!
ip community-list ABOVE permit 0:15
route-map UP deny 10
   match community ABOVE
!
route-map UP permit 20
!
end
"""
NXOS = """\
!Command: show running-config
!Time: Thu Nov 19 10:00:00 2026

version 10.5(1) Bios:version 01.18
hostname {name}
feature bgp
feature bfd
feature lldp
username admin password 5 x role network-admin
banner motd #
feature of a banner
#
interface breakout module 1 port 1 map 400g-2x
class-map type qos match-all ROCE
  match dscp 24-26
class-map type qos match-all CNP
  match dscp cs6
policy-map type qos IN
  class ROCE
    set qos-group 3
  class CNP
    set qos-group 7
policy-map type queuing OUT
  class type queuing c-out-8q-q7
    priority level 1
  class type queuing c-out-8q-q3
    bandwidth remaining percent 50
    random-detect minimum-threshold 150 kbytes maximum-threshold 3000 kbytes drop-probability 7 weight 0 ecn
policy-map type network-qos NETWORK
  class type network-qos c-8q-nq3
    mtu 9216
    pause pfc-cos 3
system qos
  service-policy type queuing output OUT
  service-policy type network-qos NETWORK
priority-flow-control watch-dog-interval on
bfd interval 500 min_rx 500 multiplier 3
ip community-list standard ABOVE seq 10 permit 0:15
route-map UP deny 10
  match community ABOVE
route-map UP permit 20
vrf context management
  ip route 0.0.0.0/0 192.0.2.254
interface mgmt0
  vrf member management
  ip address 192.0.2.1/24
interface Ethernet1/1/1
  description to {peer}
  no switchport
  mtu 9216
  priority-flow-control mode on
  service-policy type qos input IN
  ip address {address}/31
  no shutdown
interface loopback0
  ip address {loopback}/32
router bgp {asn}
  router-id {loopback}
  address-family ipv4 unicast
    maximum-paths 64
  template peer SPINE
    bfd
    address-family ipv4 unicast
      route-map UP out
  neighbor {neighbour} remote-as {peer_asn}
    inherit peer SPINE
"""


def sample(template: str, name: str, other: str, at: int) -> ConfigText:
    """Fill in a template for one end of a link: 0 or 1."""
    values = {
        "name": name,
        "peer": other,
        "address": f"10.0.0.{at}",
        "neighbour": f"10.0.0.{1 - at}",
        "loopback": f"10.9.0.{at + 1}",
        "asn": str(65001 + at),
        "peer_asn": str(65002 - at),
    }
    text = template
    for key, value in values.items():
        text = text.replace("{" + key + "}", value)
    return ConfigText(file=f"{name}.conf", text=text)


def pair(template: str) -> list[ConfigText]:
    """Return the configurations of both ends of a link."""
    return [sample(template, "leaf-1", "spine-1", 0), sample(template, "spine-1", "leaf-1", 1)]
