// SPDX-License-Identifier: Apache-2.0
// One of many processes that are lent buffers: crowd_child <how> <device> <count>. Sockets of channels come as files of
// descriptors on descriptor 3, where lines are said.
//   usual    as it is
//   nobody   becomes user 65534 first; says "no" if it may not
//   few      may have 64 open files
// It borrows one buffer and gives it back, which makes the driver open what it needs, and says "ready". Over a second
// channel it receives <count> buffers, checks the first and the last, says "holds", and waits for a line. Then it gives
// everything back and says what is left of it: "nothing left", or what there is more of than before.

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "bytes.hpp"
#include "crowd.hpp"
#include "fds.hpp"
#include "settle.hpp"
#include "spawn.hpp"
#include "time_limits.hpp"
#include "weir/channel.hpp"
#include "weir/device.hpp"
#include "weir/ipc.hpp"

namespace {

using namespace weir;
using namespace weir::test;

constexpr int lines = Child::socket_in_child;
const std::chrono::seconds limit = answer_limit();

bool become(const std::string& how) {
  constexpr unsigned nobody = 65534;
  if (how == "nobody")  // a process can read /proc/self only while it is dumpable
    return ::setgid(nobody) == 0 && ::setuid(nobody) == 0 && ::prctl(PR_SET_DUMPABLE, 1) == 0;
  const rlimit few{64, 64};
  return how != "few" || ::setrlimit(RLIMIT_NOFILE, &few) == 0;
}

ipc::Channel connect() {
  const ipc::Descriptor carrier = ipc::receive(lines, limit);
  return ipc::Channel(carrier.fds().front().duplicate());
}

std::string check(const ipc::Parcel& parcel, std::size_t number, const Stream& stream) {
  const auto same = same_bytes(read(parcel.buffer, stream), crowd_bytes(number));
  return same ? "" : "buffer " + std::to_string(number) + ": " + same.message();
}

std::string hold(std::size_t count, const Stream& stream) {
  ipc::Channel channel = connect();
  std::vector<ipc::Parcel> held;
  held.reserve(count);
  for (std::size_t i = 0; i < count; ++i) held.push_back(channel.receive(stream, limit));
  for (const std::size_t i : {std::size_t{0}, count - 1}) {
    if (const auto wrong = check(held[i], i, stream); !wrong.empty()) return wrong;
  }
  write_line(lines, "holds");
  (void)read_line(lines);
  return "";
}

std::string run(const std::string& how, const std::string& name, std::size_t count) {
  if (!become(how)) return "no";
  const Stream stream(device(name));
  {
    ipc::Channel channel = connect();
    const std::string wrong = check(channel.receive(stream, limit), 0, stream);
    if (!wrong.empty()) return wrong;
  }
  const Holdings before = holdings();
  write_line(lines, "ready");
  if (const auto wrong = hold(count, stream); !wrong.empty()) return wrong;
  stream.synchronize();
  return difference(before, settled(before));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  return run_child([&] { return run(argv[1], argv[2], std::stoul(argv[3])); }, "nothing left");
}
