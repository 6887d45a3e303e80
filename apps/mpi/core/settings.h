// SPDX-License-Identifier: Apache-2.0
// Settings of one open file: from MPI_Info hints, then the environment, then the configuration file.
#pragma once

#include <tutti/base.h>
#include <tutti/sched.h>

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collective/plan.h"
#include "layout/layout.h"

namespace tutti::mpi {

// When a job asks the gate for its turn.
enum class TurnAt : std::uint8_t {
  kNever,
  kCollective,  // at the first collective call of a phase
  kOpen,        // when the file is opened for writing, until it is closed
};

// How data reaches the file.
enum class Route : std::uint8_t {
  kDirect,  // by system calls on the mount
  kNodes,   // carried by the nodes of a cluster
};

// A text in a struct that is sent as bytes.
class ShortText {
 public:
  static constexpr std::size_t kMost = 1023;

  ShortText() = default;
  explicit ShortText(std::string_view text) { text.copy(text_.data(), kMost); }
  std::string text() const { return text_.data(); }

 private:
  std::array<char, kMost + 1> text_{};  // the rest is zeros
};

struct Settings {
  bool rearrange = true;  // false: tutti_plan=off
  collective::Options plan{};
  bool device_set = false;  // plan.device is set; else it depends on the file
  Bytes network{};          // per second between ranks; 0: not set
  TurnAt turn = TurnAt::kCollective;
  std::optional<std::uint64_t> application{};  // tutti_app; else the identity of the job
  Bytes stripe_size{};                         // 0: not set
  std::uint32_t stripe_count = 0;              // 0: not set
  Duration gap = std::chrono::seconds(1);      // a pause of this length ends a phase and its turn
  bool report = false;                         // at MPI_Finalize
  Route route = Route::kDirect;
  ShortText cluster{};                           // cluster file or its directory; empty: the client's default
  ShortText directory{};                         // that the cluster serves; empty: as the cluster file says
  Duration give_up = std::chrono::seconds(120);  // limit on one read or write through nodes

  // As bytes, for a broadcast. decode() accepts only what encode() made.
  std::string encode() const;
  static Settings decode(std::string_view bytes);
};

// One setting: where it is set and what it does. docs/mpi.md has the same table.
struct SettingInfo {
  const char* name;      // in the configuration file
  const char* hint;      // key of MPI_Info; nullptr: none
  const char* variable;  // environment
  const char* accepted;  // for messages
  Result<void> (*apply)(Settings& settings, std::string_view value);
};
const std::vector<SettingInfo>& setting_table();

// The value of a hint, a variable or a key of the configuration file.
using Lookup = std::function<std::optional<std::string>(const char* key)>;

// The values that apply when a file is opened. A hint replaces a variable, which replaces the configuration file.
struct Sources {
  Lookup hints{};
  Lookup environment{};
  Lookup configuration{};
};

// kInvalid: a hint is wrong (SettingsError::kHint), or a variable or a key of the configuration file.
struct SettingsError {
  enum class Where { kHint, kSite } where = Where::kHint;
  std::string message;
};
struct ReadSettings {
  Settings settings{};
  std::optional<SettingsError> error{};
};
// `before`: what applies where no source has a value.
ReadSettings read_settings(const Sources& sources, const Settings& before);

// The keys of table [mpi] in a TOML file as texts. A file that does not exist is empty. kInvalid: the file is wrong or
// has a key that does not exist.
Result<Lookup> read_configuration(const std::string& path);

// The profile of the devices below a file, if none is set. Files with a known layout are on a parallel file system,
// whose targets are assumed to be disks. Else `device` is the file's, as stat() returns it: disks only if the kernel
// says that it rotates and it is not the disk of a virtual machine. `devices`: where the kernel describes them.
collective::DeviceProfile assume_device(const Layout& layout, std::uint64_t device,
                                        const std::string& devices = "/sys/dev/block");

// The network between the ranks: as the settings say; else memory if all ranks are on one machine; else unchanged.
void assume_network(collective::DeviceProfile& device, const Settings& settings, bool one_machine);

// The layout that plans use: what the file system reports, else what the settings say, else one target.
Layout choose_layout(const std::optional<Layout>& discovered, const Settings& settings);

}  // namespace tutti::mpi
