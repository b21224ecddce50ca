// SPDX-License-Identifier: Apache-2.0
// cuda_pool_child <mode> <bytes>: opens memory of a driver's pool of its parent, which a descriptor on descriptor 3
// names: its one file is the pool, its first 64 bytes the memory. Expects pattern(bytes, 1), writes pattern(bytes, 2).
//   once     says "done"
//   twice    opens it twice, at two pools, closes the first, writes by the second
//   again    opens, closes and opens it once more
//   refuse   first opens what is not there, and says what came of it if that was not corrupt_descriptor
//   hold     says "open" and keeps it until a line comes
// Whatever fails is said in the line, and the exit code is 1.
#include <exception>
#include <string>

#include "bytes.hpp"
#include "modelled_driver.hpp"
#include "spawn.hpp"
#include "weir/interop/cuda_pools.hpp"
#include "weir/ipc.hpp"

namespace {

using namespace weir;
using namespace weir::test;

constexpr int channel = Child::socket_in_child;

void must_be_refused(const cuda::ImportedPool& pool, const cuda::PoolPointer& pointer, std::size_t bytes,
                     const Stream& stream) {
  try {
    (void)pool.open(pointer, bytes, stream);
  } catch (const Error& error) {
    if (error.code() == Errc::corrupt_descriptor) return;
    throw;
  }
  throw Error(Errc::invalid_argument, "was opened: " + std::to_string(bytes) + " bytes");
}

std::string run(const std::string& mode, std::size_t bytes) {
  const ipc::Descriptor descriptor = ipc::receive(channel, std::chrono::seconds{30});
  const Device device = cuda::device(0);
  const Stream stream(device);
  cuda::ImportedPool pool(device, descriptor.fds()[0].duplicate());
  cuda::PoolPointer pointer;
  std::ranges::copy(descriptor.bytes().first(pointer.size()), pointer.begin());
  if (mode == "refuse") {
    cuda::PoolPointer wrong{};
    must_be_refused(pool, wrong, bytes, stream);
    must_be_refused(pool, pointer, bytes << 20U, stream);
  }
  Buffer buffer = pool.open(pointer, bytes, stream);
  if (mode == "hold") {
    write_line(channel, "open");
    (void)read_line(channel);
  }
  if (mode == "again") {
    buffer.close();
    buffer = pool.open(pointer, bytes, stream);
  }
  if (mode == "twice") {
    const cuda::ImportedPool same(device, descriptor.fds()[0].duplicate());
    Buffer second = same.open(pointer, bytes, stream);
    if (second.device_address() != buffer.device_address()) return "another address";
    buffer.close();
    buffer = std::move(second);
  }
  if (read(buffer, stream) != pattern(bytes, 1)) return "other bytes than were sent";
  write(buffer, pattern(bytes, 2), stream);
  stream.synchronize();
  buffer.close();
  const std::string told = take_violations();
  return told.empty() ? "done" : told.substr(0, told.find('\n'));
}

}  // namespace

int main(int, char** arguments) {
  std::string line;
  try {
    line = run(arguments[1], std::stoul(arguments[2]));
  } catch (const std::exception& error) {
    line = error.what();
  }
  write_line(channel, line);
  return line == "done" ? 0 : 1;
}
