// SPDX-License-Identifier: Apache-2.0
// A plug-in that uses weir: once with the library inside, once with the executable's.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <span>
#include <vector>

#include "weir/spi/stranger_fd.hpp"
#include "weir/spi/unique_fd.hpp"
#include "weir/weir.hpp"

namespace {

constexpr std::size_t size = 64 << 10;

bool use(const weir::Device& device, const weir::Stream& stream) {
  const auto resource = weir::make_resource(device);
  weir::Buffer from = resource->allocate(size, stream), to = resource->allocate(size, stream);
  from.fill(std::byte{0x2a}, stream);
  to.copy_from(from, stream);
  std::vector<std::byte> bytes(size);
  to.copy_to(std::span(bytes), stream);
  bool called = false;
  const weir::Stream of_host(weir::host_device());
  of_host.wait(stream.record());
  of_host.call([&] { called = true; });
  of_host.synchronize();
  return called && bytes[0] == std::byte{0x2a} && bytes[size - 1] == std::byte{0x2a};
}

}  // namespace

/// Leaves nothing behind. 0 when all is well.
extern "C" int plugin_use(const char* device) noexcept try {
  const auto on = weir::device(device);
  return use(on, weir::Stream(on)) ? 0 : 1;
} catch (const std::exception&) {
  return 2;
}

/// Ends once the input does.
extern "C" int plugin_serve(const char* path, int input) noexcept try {
  const weir::ipc::Server server(path);
  char byte;
  return read(input, &byte, 1) == 0 ? 0 : 1;
} catch (const std::exception&) {
  return 2;
}

/// Uses no device.
extern "C" int plugin_ask(const char* path) noexcept try {
  return weir::ipc::Client(path).list().empty() ? 0 : 1;
} catch (const weir::Error& error) {
  return error.code() == weir::Errc::peer_gone ? 3 : 2;
} catch (const std::exception&) {
  return 2;
}

/// Uses no device.
extern "C" int plugin_connect() noexcept try {
  auto [one, other] = weir::ipc::Channel::make_sockets();
  const weir::ipc::Channel first(std::move(one)), second(std::move(other));
  return first.stats().lent == 0 ? 0 : 1;
} catch (const std::exception&) {
  return 2;
}

#if !WEIR_IN_EXECUTABLE  // whose library exports none of this
/// Has a stranger's file, which a thread of the library closes. Uses no device.
extern "C" int plugin_drop_a_file() noexcept {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return 1;
  close(ends[1]);
  const weir::spi::StrangerFd file{weir::spi::UniqueFd(ends[0])};
  return 0;
}
#endif

/// Leaves work behind, held back until a byte comes from `input`; then a byte goes to `output`. Closes both.
extern "C" int plugin_leave_work(const char* device, int input, int output) noexcept try {
  const auto on = weir::device(device);
  const weir::Stream first(weir::host_device()), stream(on);
  if (!use(on, stream)) return 1;
  weir::Buffer buffer = weir::make_resource(on)->allocate(size, stream);
  first.call([input] {
    char byte;
    while (read(input, &byte, 1) < 0) {
    }
    close(input);
  });
  stream.wait(first.record());
  buffer.fill(std::byte{1}, stream);
  buffer.close();
  const weir::Stream last(weir::host_device());
  last.wait(stream.record());
  last.call([output] {
    (void)!write(output, "!", 1);
    close(output);
  });
  return 0;
} catch (const std::exception&) {
  return 2;
}
