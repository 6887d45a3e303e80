// SPDX-License-Identifier: Apache-2.0
// MPI_File_open, MPI_File_close and the calls that change how an open file is used.
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/print_error.h"
#include "layout/discovery.h"
#include "mpi/core/mount_file.h"
#include "mpi/interpose/calls.h"
#include "mpi/interpose/datatype.h"
#include "mpi/interpose/file.h"
#include "mpi/interpose/hints.h"
#include "mpi/interpose/intercepted.h"

namespace tutti::mpi {
namespace {

// What rank 0 sends to the others about the open file.
struct FileMessage {
  std::uint64_t inode = 0;
  std::uint64_t application = 0;
  std::uint64_t stripe_size = 0, object_size = 0;
  std::uint32_t stripe_count = 0, targets = 0;
  bool discovered = false, set = false;
  bool turns = false;
  bool prefixed = false;  // what MPI opened is the name without its prefix
  bool rearrange = true;
  bool carried = false;
  collective::DeviceProfile device{};
};

// What attach() makes on every rank.
struct Attached {
  FileMessage message{};
  Layout layout{};
  std::unique_ptr<DataFile> data{};
  CarriedFile* carried = nullptr;  // `data`
};

// ROMIO accepts the name of a file system before the path, as in "ufs:/scratch/file". The length of "ufs:", else 0.
std::size_t prefix_length(std::string_view name) {
  const auto colon = name.find(':');
  if (colon == std::string_view::npos || colon < 2 || name.substr(0, colon).find('/') != std::string_view::npos)
    return 0;
  return colon + 1;
}

bool exists(const char* path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// Open MPI has two components for files. OMPIO takes the prefix for a part of the name; ROMIO does not.
#ifdef OPEN_MPI
constexpr bool kPrefixMayBelong = true;
#else
constexpr bool kPrefixMayBelong = false;
#endif

// Of rank 0, for a file that MPI has opened.
bool prefix_removed(const char* name) {
  return prefix_length(name) > 0 && !(kPrefixMayBelong && exists(name));
}

std::string absolute_path(const char* name, bool prefixed) {
  std::error_code ignored;
  return std::filesystem::absolute(name + (prefixed ? prefix_length(name) : 0), ignored).string();
}

// File systems on which MPI libraries lock what they read and write, because clients cache it.
bool needs_locks(const std::string& path) {
  struct statfs status {};
  if (::statfs(path.c_str(), &status) != 0) return false;
  constexpr std::uint32_t kSmb2 = 0xfe534d42, kCifs = 0xff534d42;
  const auto type = static_cast<std::uint32_t>(status.f_type);
  return type == NFS_SUPER_MAGIC || type == SMB_SUPER_MAGIC || type == kSmb2 || type == kCifs;
}

// Why collective calls of a file must be left to the MPI library; empty: they need not be.
std::string why_not_rearranged(const char* name, const std::string& path) {
  const char* const rest = name + prefix_length(name);
  if (kPrefixMayBelong && rest != name && exists(name) && exists(rest))
    return fmt::format("{} and {} exist, and Open MPI does not tell which of them it opened", name, rest);
  if (needs_locks(path)) return path + " is on NFS or SMB, which need the MPI library's locks";
  return "";
}

// Of rank 0.
bool may_rearrange(const char* name, bool prefixed, const Settings& settings) {
  const std::string why = why_not_rearranged(name, absolute_path(name, prefixed));
  if (!why.empty() && settings.rearrange)
    Process::current().say_once(why + "; its collective calls are left to the MPI library");
  return why.empty();
}

std::optional<Layout> discover_layout(const std::string& path) {
  auto found = discover_file(path, gate::kMaxTargets);
  if (found) return *found;
  Process::current().say_once(fmt::format("{}: {}; plans use the striping hints instead", path, found.error().message));
  return std::nullopt;
}

void warn_about_hints(const std::string& path, const Layout& layout, const Settings& settings) {
  const bool size = settings.stripe_size > Bytes{} && settings.stripe_size != layout.stripe_size;
  const bool count = settings.stripe_count > 0 && settings.stripe_count != layout.stripe_count;
  if (size || count)
    Process::current().say_once(
        fmt::format("{}: hints or settings say another striping than the file has ({} stripes "
                    "of {} bytes); plans use that of the file",
                    path, layout.stripe_count, layout.stripe_size.count()));
}

CarriedFile::Options carried_options(const ClusterPath& found, int amode, std::uint64_t inode,
                                     const Settings& settings) {
  return {[cluster = found.cluster, settings] { return Process::current().client(cluster, settings); }, found.path,
          (amode & MPI_MODE_WRONLY) == 0, (amode & (MPI_MODE_WRONLY | MPI_MODE_RDWR)) != 0, inode};
}

// Of rank 0, if the file is to be carried by nodes. False: it cannot be.
bool examine_carried(const std::string& path, int amode, const Settings& settings, Attached& attached,
                     ClusterPath& found) {
  const auto in_cluster = find_in_cluster({settings.cluster.text(), settings.directory.text()}, path);
  std::optional<Error> error;
  if (in_cluster) {
    found = *in_cluster;
    auto file = std::make_unique<CarriedFile>(carried_options(found, amode, attached.message.inode, settings));
    if (const auto opened = file->open(); !opened) error = opened.error();
    attached.carried = file.get();
    attached.data = std::move(file);
  } else {
    error = in_cluster.error();
  }
  if (error) {
    Process::current().say_once(error->message + "; the data goes to the mount, not through nodes");
    attached.carried = nullptr;
    return false;
  }
  attached.layout = attached.carried->layout();
  attached.message.device = found.disks ? collective::DeviceProfile::disk() : collective::DeviceProfile::flash();
  return true;
}

// Of rank 0. The layout of a file of the mount.
void examine_mounted(const std::string& path, const Settings& settings, std::uint64_t device, Attached& attached) {
  const auto discovered = discover_layout(path);
  attached.layout = choose_layout(discovered, settings);
  attached.message.discovered = discovered.has_value();
  attached.message.device = assume_device(attached.layout, device);
}

// Of rank 0.
void examine(const char* name, const OpenFile& file, Attached& attached, ClusterPath& found) {
  const Settings& settings = file.settings;
  FileMessage& message = attached.message;
  message.prefixed = prefix_removed(name);
  const std::string path = absolute_path(name, message.prefixed);
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) message.inode = status.st_ino;
  const auto application = Process::current().application(settings.application);
  message.application = application.number;
  message.turns = settings.turn != TurnAt::kNever && Process::current().turns(application) != nullptr;
  message.carried = settings.route == Route::kNodes && settings.rearrange &&
                    examine_carried(path, file.amode, settings, attached, found);
  if (!message.carried) examine_mounted(path, settings, status.st_dev, attached);
  const Layout& layout = attached.layout;
  if (message.carried || message.discovered) warn_about_hints(path, layout, settings);
  if (settings.device_set) message.device = settings.plan.device;
  assume_network(message.device, settings, file.one_machine);
  message.set = settings.stripe_count > 0;
  message.stripe_size = layout.stripe_size.count();
  message.object_size = layout.object_size.count();
  message.stripe_count = layout.stripe_count;
  message.targets = static_cast<std::uint32_t>(layout.targets.size());
}

// Collective. Where rank 0 found the file in the cluster.
void share_cluster_path(ClusterPath& found, MPI_Comm comm) {
  for (std::string* text : {&found.cluster, &found.path}) {
    std::uint64_t size = text->size();
    PMPI_Bcast(&size, 1, MPI_UINT64_T, 0, comm);
    text->resize(size);
    PMPI_Bcast(text->data(), static_cast<int>(size), MPI_CHAR, 0, comm);
  }
}

// Collective. The layout that rank 0 found.
void share_layout(FileMessage& message, Layout& layout, MPI_Comm comm, int rank) {
  broadcast(message, comm);
  if (rank != 0) {
    layout.stripe_size = Bytes(message.stripe_size);
    layout.object_size = Bytes(message.object_size);
    layout.stripe_count = message.stripe_count;
    layout.targets.resize(message.targets);
    layout.source = message.discovered || message.carried ? "file system" : message.set ? "settings" : "default";
  }
  static_assert(sizeof(TargetId) == 4);
  PMPI_Bcast(layout.targets.data(), static_cast<int>(message.targets), MPI_UINT32_T, 0, comm);
}

// Collective. The file's data: through the nodes, as rank 0 found it, else on the mount.
void attach_data(const char* name, const OpenFile& file, Attached& attached, ClusterPath& found) {
  const FileMessage& message = attached.message;
  if (message.carried) {
    share_cluster_path(found, file.comm);
    if (attached.carried) return;
    auto data = std::make_unique<CarriedFile>(carried_options(found, file.amode, message.inode, file.settings));
    attached.carried = data.get();
    attached.data = std::move(data);
    return;
  }
  attached.data = std::make_unique<MountFile>(
      MountFile::Options{absolute_path(name, message.prefixed), file.readable(), file.writable(), message.inode});
}

// Of rank 0. After a failure here rank 0 must still send its message to the others, which wait for it.
void examine_or_leave(const char* name, const OpenFile& file, Attached& attached, ClusterPath& found) try {
  examine(name, file, attached, found);
  if (FileMessage& message = attached.message; file.size > 1 || message.carried)
    message.rearrange = may_rearrange(name, message.prefixed, file.settings);
} catch (const std::exception& problem) {  // no memory, or no thread for the connection to the nodes or the gate
  attached = {.message = {.application = attached.message.application, .rearrange = false},
              .layout = choose_layout(std::nullopt, file.settings)};
  Process::current().say_once(fmt::format("{}; collective calls are left to the MPI library", problem.what()));
}

// Collective, after the MPI library has opened the file on all ranks.
void attach(const char* name, const std::shared_ptr<OpenFile>& file) {
  Attached attached;
  ClusterPath found;
  FileMessage& message = attached.message;
  if (file->rank == 0) examine_or_leave(name, *file, attached, found);
  share_layout(message, attached.layout, file->comm, file->rank);
  Process::current().adopt(message.application);
  attach_data(name, *file, attached, found);
  file->data = std::move(attached.data);
  file->carried = attached.carried;
  file->settings.plan.device = message.device;
  file->settings.plan.nonblocking = message.carried;  // system calls complete before the next one
  file->layout = std::move(attached.layout);
  file->turns = message.turns;
  file->left_to_mpi = !message.rearrange;
}

// Different on machines that were not started together; 0: not known.
std::int64_t machine() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return boot.empty() ? 0 : static_cast<std::int64_t>(std::hash<std::string>()(boot) >> 1);
}

struct OpenedByAll {
  bool fine = false;         // all ranks have opened the file
  bool one_machine = false;  // all ranks are on it
};

// Collective.
OpenedByAll opened_by_all(bool fine, MPI_Comm comm) {
  const std::int64_t here = machine();
  const std::int64_t mine[3] = {fine ? 0 : 1, here, -here};
  std::int64_t largest[3] = {1, 0, 0};
  PMPI_Allreduce(mine, largest, 3, MPI_INT64_T, MPI_MAX, comm);
  return {largest[0] == 0, here != 0 && largest[1] == -largest[2]};
}

// This library's own communicator. Unlike MPI_Comm_dup, MPI_Comm_split does not call functions of the program.
MPI_Comm make_comm(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm own = MPI_COMM_NULL;
  PMPI_Comm_rank(comm, &rank);
  if (PMPI_Comm_split(comm, 0, rank, &own) != MPI_SUCCESS) return MPI_COMM_NULL;
  PMPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
  return own;
}

bool intercommunicator(MPI_Comm comm) {
  int inter = 0;
  PMPI_Comm_test_inter(comm, &inter);
  return inter != 0;
}

// Sums what the ranks did with a file, for the report.
void count_activity(const OpenFile& file) {
  if (!file.settings.report) return;
  FileCounters sum;
  constexpr int kCount = sizeof(FileCounters) / sizeof(std::uint64_t);
  PMPI_Reduce(&file.counters, &sum, kCount, MPI_UINT64_T, MPI_SUM, 0, file.comm);
  if (file.rank == 0) Process::current().count(sum, static_cast<std::uint64_t>(file.size));
}

// The view that a rank asks for. `code`: what is wrong with it, as an MPI error class.
struct AskedView {
  std::int64_t code = kFine;
  std::optional<FileView> view{};  // empty: the file type cannot be flattened
};

AskedView examine_view(const OpenFile& file, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype) {
  if (displacement < 0 && !file.sequential()) return {.code = MPI_ERR_ARG};
  if (etype == MPI_DATATYPE_NULL || filetype == MPI_DATATYPE_NULL) return {.code = MPI_ERR_TYPE};
  MPI_Count unit = 0, size = 0;
  PMPI_Type_size_x(etype, &unit);
  PMPI_Type_size_x(filetype, &size);
  if (unit <= 0 || size % unit != 0) return {.code = MPI_ERR_ARG};
  auto flat = flatten(filetype);
  if (!flat) {
    Process::current().say_once(flat.error().message + "; collective calls are left to the MPI library");
    return {};
  }
  AskedView asked{kFine, FileView(displacement, unit, std::move(*flat))};
  if (asked.view->overlaps() && file.writable()) asked.code = MPI_ERR_TYPE;
  return asked;
}

// ROMIO of MPICH 4.0 flattens some nested datatypes wrongly: it refuses their views on one rank, while the others wait
// for it, or uses other bytes. It gets the same bytes as a type that is not nested.
int set_view_of_mpi(MPI_File handle, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
                    const AskedView& asked, const char* datarep, MPI_Info info) {
#ifndef OPEN_MPI
  if (asked.view && !asked.view->empty() && nested(filetype)) {
    if (MPI_Datatype type = unnested(asked.view->filetype()); type != MPI_DATATYPE_NULL) {
      const int result = next().File_set_view(handle, displacement, etype, type, datarep, info);
      PMPI_Type_free(&type);
      return result;
    }
  }
#else
  (void)asked;
#endif
  return next().File_set_view(handle, displacement, etype, filetype, datarep, info);
}

}  // namespace

int File_open(MPI_Comm comm, const char* path, int amode, MPI_Info info, MPI_File* handle) {
  if (comm == MPI_COMM_NULL || !path || !handle || intercommunicator(comm))
    return next().File_open(comm, path, amode, info, handle);
  MPI_Comm own = make_comm(comm);
  if (own == MPI_COMM_NULL) return next().File_open(comm, path, amode, info, handle);
  int rank = 0;
  PMPI_Comm_rank(own, &rank);
  SettingsMessage message;
  if (rank == 0) message = read_all_settings(info);
  broadcast(message, own);
  if (message.error != MPI_SUCCESS) {
    PMPI_Comm_free(&own);
    return raise_error(MPI_FILE_NULL, message.error);
  }
  const int result = next().File_open(comm, path, amode, info, handle);
  const OpenedByAll opened = opened_by_all(result == MPI_SUCCESS, own);
  if (!opened.fine) {
    PMPI_Comm_free(&own);
    return result;
  }
  auto file = std::make_shared<OpenFile>();
  file->comm = own;
  PMPI_Comm_rank(own, &file->rank);
  PMPI_Comm_size(own, &file->size);
  file->amode = amode;
  file->settings = message.settings;
  file->one_machine = opened.one_machine;
  attach(path, file);
  if (file->settings.turn == TurnAt::kOpen && file->writable()) {
    begin_turn(*file, Bytes{});
    end_use(*file);
  }
  Process::current().add(*handle, std::move(file));
  return result;
}

int File_close(MPI_File* handle) {
  const auto file = handle ? Process::current().find(*handle) : nullptr;
  if (!file) return next().File_close(handle);
  std::int64_t code = kFine;
  if (const auto closed = file->data->close(); !closed) {
    Process::current().say_once(closed.error().message);
    code = error_class_of(closed.error());
  }
  code = agree(*file, code);
  count_activity(*file);
  Process::current().remove(*handle);
  const int result = next().File_close(handle);
  if (file->turns && file->rank == 0)
    if (JobTurns* turns = Process::current().turns()) turns->ended(file.get());
  PMPI_Comm_free(&file->comm);
  if (result != MPI_SUCCESS || code == kFine) return result;
  return raise_error(MPI_FILE_NULL, static_cast<int>(code));
}

int File_set_view(MPI_File handle, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
                  const char* datarep, MPI_Info info) {
  const auto file = Process::current().find(handle);
  if (!file) return next().File_set_view(handle, displacement, etype, filetype, datarep, info);
  SettingsMessage message;
  if (file->rank == 0) message = change_settings(*file, info);
  broadcast(message, file->comm);
  AskedView asked = examine_view(*file, displacement, etype, filetype);
  const std::int64_t code = agree(*file, message.error != MPI_SUCCESS ? message.error : asked.code);
  if (code != kFine) return raise_error(handle, static_cast<int>(code));
  const int result = set_view_of_mpi(handle, displacement, etype, filetype, asked, datarep, info);
  if (result != MPI_SUCCESS) return result;
  adopt_settings(*file, message.settings);
  file->native = datarep && std::strcmp(datarep, "native") == 0;
  file->view_known = asked.view.has_value();
  if (asked.view) file->view = std::move(*asked.view);
  return result;
}

int File_set_info(MPI_File handle, MPI_Info info) {
  const auto file = Process::current().find(handle);
  if (!file) return next().File_set_info(handle, info);
  SettingsMessage message;
  if (file->rank == 0) message = change_settings(*file, info);
  broadcast(message, file->comm);
  if (message.error != MPI_SUCCESS) return raise_error(handle, message.error);
  adopt_settings(*file, message.settings);
  return next().File_set_info(handle, info);
}

int File_set_atomicity(MPI_File handle, int flag) {
  const int result = next().File_set_atomicity(handle, flag);
  if (const auto file = Process::current().find(handle); file && result == MPI_SUCCESS) file->atomic = flag != 0;
  return result;
}

int File_sync(MPI_File handle) {
  const auto file = Process::current().find(handle);
  if (!file) return next().File_sync(handle);
  std::int64_t code = kFine;
  if (const auto synced = file->data->sync(); !synced) {
    Process::current().say_once(synced.error().message);
    code = error_class_of(synced.error());
  }
  code = agree(*file, code);
  const int result = next().File_sync(handle);
  if (result != MPI_SUCCESS || code == kFine) return result;
  return raise_error(handle, static_cast<int>(code));
}

int Finalize() {
  Process::current().end_turns();
  const std::string report = Process::current().report();
  if (!report.empty()) print_error("tutti: {}\n", report);
  Process::current().disconnect();
  return next().Finalize();
}

}  // namespace tutti::mpi
