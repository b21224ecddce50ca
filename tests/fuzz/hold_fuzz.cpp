// SPDX-License-Identifier: Apache-2.0
// Packets between a holder and its clients, as a stranger may write them: a packet is taken or refused, the holder never
// keeps more than its limits, and a reader only gets sets that are whole. Input: the role that the client claims, then
// packets, each with a count of files and a length. They go to a holder, and to a reader.

#include <memory>
#include <set>
#include <vector>

#include "input.hpp"
#include "ipc/hold/reading.hpp"
#include "ipc/hold/records.hpp"
#include "ipc/hold/session.hpp"
#include "target.hpp"
#include "weir/error.hpp"

namespace weir::fuzz {
namespace {

using namespace detail::hold;

using File = std::shared_ptr<int>;

struct Memory {
  Memory(Bytes descriptor, File from) : file(std::move(from)) {
    require(descriptor.size() == detail::wire_size, "a descriptor of another size");
  }
  File file;
};

template <class Call>
bool passes(Call call) {
  try {
    call();
    return true;
  } catch (const Error& error) {
    require(error.code() == Errc::corrupt_descriptor, error.what());
    return false;
  }
}

void run_hold(std::span<const std::byte> bytes) {
  Input input(bytes);
  const Limits limits{1, 20, 20000, 3};
  const File file = std::make_shared<int>(1);
  {
    Store<File> store(limits);
    Session<File> session(store);
    const auto role = input.below(2) == 0 ? Role::writer : Role::reader;
    session.receive(encode(Hello{protocol_version, role, "a"}), {}, false);
    Reading<File, Memory> reading;
    (void)reading.ask(0);
    bool serves = true, reads = true;
    while (!input.empty() && (serves || reads)) {
      const auto files = input.below(4);
      const std::size_t length = input.take<std::uint16_t>();
      const auto packet = input.bytes(length);
      serves = serves && passes([&] { session.receive(packet, std::vector<File>(files, file), false); });
      for (int i = 0; i < 100 && serves && session.has_packet(); ++i) {
        Packet out;
        std::vector<const File*> beside;
        session.compose(out, beside);
        require(out.size() <= largest_packet && beside.size() == files_of(decode(out)), "a packet that nobody can take");
        session.sent();
      }
      require(store.size() <= limits.sets && store.usage()->files <= limits.files &&
                  store.usage()->bytes <= limits.bytes + 3 * detail::wire_size,
              "more than the limits");
      const auto kept = store.find("a");
      require(!kept || kept->segments.size() <= limits.files, "segments that do not count");
      reads = reads && passes([&] {
        const auto arrived = reading.receive(packet, std::vector<File>(files, file));
        if (!arrived) return;
        for (const auto& segment : arrived->segments) require(segment && segment->file == file, "a segment without memory");
        require(std::set(arrived->segments.begin(), arrived->segments.end()).size() == arrived->segments.size(),
                "a segment twice");
        for (const Packet& tensors : arrived->tensors) {
          const Message message = decode(tensors);
          read_records(std::get<Tensors>(message), [&](Record&& record) {
            require(!record.name.empty() && record.name.size() <= most_name, "a name without limits");
            require(record.layout.shape.size() == record.layout.strides.size(), "a shape without strides");
          });
        }
      });
    }
  }
  require(file.use_count() == 1, "files were lost or found");
}

const Register registered("hold", &run_hold);

}  // namespace
}  // namespace weir::fuzz
