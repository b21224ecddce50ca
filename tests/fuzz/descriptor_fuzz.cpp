// SPDX-License-Identifier: Apache-2.0
// ipc::open of descriptors with any bytes and any files: refused in one of the ways that are for strangers, or exactly
// the range that the bytes name; every file closed once. Input: which memory, form, files, then 256 bytes that are
// exclusive-or'ed with a genuine descriptor (a seed of zeros is genuine on every machine), or taken as they are.

#include <optional>

#include "descriptor_fields.hpp"
#include "input.hpp"
#include "ipc/wire.hpp"
#include "memory.hpp"
#include "sink.hpp"
#include "stranger_files.hpp"
#include "target.hpp"
#include "weir/error.hpp"
#include "weir/ipc.hpp"

namespace weir::fuzz {
namespace {

using spi::UniqueFd;
namespace wire = test::wire;

/// A genuine descriptor, and the buffer that it names.
struct Genuine {
  static constexpr std::size_t size = 8192;
  Buffer buffer;
  test::Bytes bytes;
  UniqueFd file;
};

std::vector<Genuine> make_genuine() {
  std::vector<Genuine> all;
  for (const test::Memory& memory : test::memories()) {
    if (!memory.exportable || memory.stack != nullptr) continue;
    const Stream stream(memory.device);
    Genuine one{memory.make()->allocate(Genuine::size, stream), {}, {}};
    test::write(one.buffer, test::pattern(Genuine::size, 1), stream);
    stream.synchronize();
    const auto descriptor = one.buffer.ipc_descriptor(stream);
    one.bytes.assign(descriptor.bytes().begin(), descriptor.bytes().end());
    one.file = descriptor.fds()[0].duplicate();
    // Drivers open files of their own when memory is first opened, and when that is refused.
    Buffer opened;
    for (const Stranger kind : {Stranger::genuine, Stranger::sealed}) {
      try {
        std::vector<UniqueFd> fds;
        fds.push_back(Strangers().open(kind, one.file, Genuine::size));
        opened = ipc::open({one.bytes, std::move(fds)}, stream);
      } catch (const Error&) {
      }
    }
    const auto home = opened.memory_resource();
    opened.close();
    (void)home->trim(0);  // its files are closed now, and not some time during the first input
    all.push_back(std::move(one));
  }
  return all;
}

struct Forgery {
  test::Bytes bytes;
  std::vector<Stranger> files;
};

Forgery forge(Input& input, const Genuine& genuine) {
  const auto form = input.take<std::uint8_t>();
  Forgery forgery;
  forgery.files.resize(input.below(5));
  for (auto& file : forgery.files) file = static_cast<Stranger>(input.below(static_cast<std::size_t>(Stranger::count)));
  const auto mask = input.rest();
  if (form & 1U) {
    forgery.bytes.assign(mask.begin(), mask.end());
  } else {
    forgery.bytes = genuine.bytes;
    for (std::size_t i = 0; i < std::min(mask.size(), genuine.bytes.size()); ++i) forgery.bytes[i] ^= mask[i];
    if (form & 2U) forgery.bytes.resize(std::max<std::size_t>(mask.size(), 1) - 1);
  }
  // A checksum that fits, so that strangers get past it.
  if (!(form & 4U) && forgery.bytes.size() == ipc::Descriptor::size) {
    forgery.bytes = wire::with(forgery.bytes, wire::Field{"", 0, 0}, 0);
  }
  return forgery;
}

/// What the bytes say, if they are a descriptor; reading and writing them again must give them back.
std::optional<detail::WireDescriptor> decoded(std::span<const std::byte> bytes) {
  try {
    const auto fields = detail::decode(bytes);
    require(std::ranges::equal(detail::encode(fields), bytes), "decode and encode disagree");
    return fields;
  } catch (const Error& error) {
    require(error.code() == Errc::corrupt_descriptor || error.code() == Errc::incompatible, error.what());
    return std::nullopt;
  }
}

void check_opened(Buffer& opened, const detail::WireDescriptor& fields, const Genuine* same, const Stream& stream) {
  require(opened.size() == fields.size && opened.location().offset == fields.offset, "another range was opened");
  require(opened.is_read_only() == fields.read_only, "read-only got lost");
  const auto some = std::min<std::size_t>(opened.size(), 512);
  test::Bytes first(some), last(some);
  opened.copy_to(first, stream);
  opened.copy_to(last, stream, opened.size() - some);
  stream.synchronize();
  if (!same || fields.offset > Genuine::size || some > Genuine::size - fields.offset) return;
  require(first == test::part(test::pattern(Genuine::size, 1), fields.offset, some), "other bytes are there");
}

void check_writable(Buffer& opened, const detail::WireDescriptor& fields, const Stream& stream) {
  try {
    opened.fill(std::byte{7}, opened.size() - 1, 1, stream);
    stream.synchronize();
    require(!fields.read_only, "read-only memory was written");
  } catch (const Error& error) {
    require(fields.read_only && error.code() == Errc::permission_denied, error.what());
  }
}

void run_descriptor(std::span<const std::byte> bytes) {
  static const std::vector<Genuine> all = make_genuine();
  Input input(bytes);
  const Genuine& genuine = all[input.below(all.size())];
  const Forgery forgery = forge(input, genuine);
  const auto fields = decoded(forgery.bytes);
  Strangers strangers;
  std::vector<UniqueFd> fds;
  const auto claimed = forgery.bytes.size() < 80 ? 0 : wire::get(forgery.bytes, wire::segment_size);
  for (const Stranger kind : forgery.files) fds.push_back(strangers.open(kind, genuine.file, claimed));

  const Stream stream(genuine.buffer.device());
  ResourcePtr home;
  try {
    Buffer opened = ipc::open({forgery.bytes, std::move(fds)}, stream);
    require(fields.has_value(), "opened what cannot be decoded");
    home = opened.memory_resource();
    strangers.settle();
    const bool same = forgery.files[0] == Stranger::genuine;
    check_opened(opened, *fields, same ? &genuine : nullptr, stream);
    if (!same) check_writable(opened, *fields, stream);
  } catch (const Error& error) {
    const auto code = error.code();
    const bool gone = strangers.never_ready() && (code == Errc::peer_gone || code == Errc::device_lost);
    require(gone || code == Errc::corrupt_descriptor || code == Errc::incompatible || code == Errc::permission_denied,
            error.code().message() + ": " + error.what());
  }
  fds.clear();
  if (home) (void)home->trim(0);
  require(strangers.released(), "a socket was not closed");
  if (strangers.never_ready()) (void)test::take_reports();  // of the lost stream
}

const Register registered("descriptor", &run_descriptor);

}  // namespace
}  // namespace weir::fuzz
