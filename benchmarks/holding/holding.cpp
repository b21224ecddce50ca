// SPDX-License-Identifier: Apache-2.0
// holding/commit, holding/open: a set of 10 000 tensors of 4 KiB out of an exportable pool goes to a holder on a thread of
// this process, and a reader has it back, with the connection. `open` begins with the connection of a new reader and ends
// when the tensors are there; memory is opened, not read. Only weir: no peer keeps sets.
#include <filesystem>
#include <string>
#include <thread>

#include <unistd.h>

#include "support/row.hpp"
#include "support/suite.hpp"
#include "weir/weir.hpp"

namespace weir::bench {
namespace {

constexpr std::size_t count = 10'000;

class Holding {
 public:
  ~Holding() {
    holder_.stop();
    thread_.join();
    std::filesystem::remove_all(folder_);
  }
  [[nodiscard]] std::string path() const { return folder_ / "holder"; }

 private:
  static std::filesystem::path make_folder() {
    auto made = std::filesystem::temp_directory_path() / ("weir-holding-" + std::to_string(::getpid()));
    std::filesystem::create_directory(made);
    return made;
  }
  const std::filesystem::path folder_ = make_folder();
  ipc::Holder holder_{folder_ / "holder"};
  std::thread thread_{[this] { holder_.run(); }};
};

void commit(ipc::SetWriter& writer, const ResourcePtr& pool, const Stream& stream) {
  for (std::size_t i = 0; i < count; ++i) {
    const Buffer buffer = pool->allocate(4 * kib, stream);
    writer.add("model.layers." + std::to_string(i) + ".weight", buffer.view(f32, {32, 32}), stream);
  }
  (void)writer.commit();
}

void measure(benchmark::State& state, const Device& device, MemoryKind kind, bool opens) {
  const Holding holding;
  const Stream stream(device);
  const ResourcePtr pool = make_pool(make_resource(device, kind, {.exportable = true}), {.exportable = true});
  ipc::SetWriter writer(holding.path(), "weights");
  commit(writer, pool, stream);
  for (auto _ : state) {
    if (opens) {
      ipc::SetReader reader(holding.path(), "weights");
      const ipc::HeldSet set = reader.open(stream);
      if (set.tensors.size() != count) state.SkipWithError("tensors are missing");
    } else {
      commit(writer, pool, stream);
    }
  }
}

const Suite suite("", [](const Device& device) {
  for (const KindInfo& info : device.kinds()) {
    if (!info.exportable) continue;
    for (const bool opens : {false, true}) {
      add_row(std::string(device.backend()) + "/holding/" + (opens ? "open" : "commit") + "/weir",
              [device, kind = info.kind, opens](benchmark::State& state) { measure(state, device, kind, opens); });
    }
    return;
  }
});

}  // namespace
}  // namespace weir::bench
