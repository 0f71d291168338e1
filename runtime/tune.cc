#include "runtime/tune.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "ir/reference/envelope.h"
#include "ir/status.h"
#include "runtime/cuda/driver.h"
#include "runtime/executable_impl.h"
#include "runtime/random_inputs.h"
#include "runtime/segment_program.h"
#include "scheduler/alternatives.h"
#include "scheduler/choose.h"
#include "scheduler/variants.h"

namespace seam {
namespace {

// Repetitions of the first round, and of the last, to which so many of the fastest come.
constexpr int kHeat = 5, kFinal = 15, kFinalists = 3;
// A lesser gain is noise.
constexpr double kLeastGain = 1.01;
// Times TuneOptions::checked_values.
constexpr double kMostValues = 8;
constexpr int kPerturbedRuns = 4;
// Values that the reference computes for one check, at the most: some seconds.
constexpr double kMostOfCheck = 1 << 28;

double SteadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

absl::StatusOr<CallTimer> TimeOnThisGpu(const Executable& group,
                                        absl::Span<const SymbolValue> symbols) {
  return TimeOnGpu(group, symbols, {.repetition_ms = 3});
}

std::vector<SymbolValue> SymbolsOf(const Fusion& group, absl::Span<const int64_t> sizes) {
  std::vector<SymbolValue> symbols;
  for (const SymNode* s : group.env().symbols())
    symbols.push_back({std::string(s->name), sizes[symbols.size()]});
  return symbols;
}

// What a group must compute, at sizes that the reference can do.
struct Expected {
  std::vector<SymbolValue> symbols;
  SymbolBindings bindings;  // The same.
  std::vector<HostTensor> inputs;
  std::vector<Envelope> envelopes;
  int most_runs = 0;  // Of the reference, to widen them.
};

absl::StatusOr<double> NumValues(const Fusion& group, absl::Span<const SymbolValue> symbols) {
  SEAM_ASSIGN_OR_RETURN(const SizeBinding binding, BindGiven(group, symbols));
  double values = 0;
  for (uint32_t i = 0; i < group.num_vals(); ++i) {
    SEAM_ASSIGN_OR_RETURN(const int64_t n, binding.Value(group.type(ValId(i)).numel()));
    values += static_cast<double>(n);
  }
  return values;
}

// Sizes so small that the reference computes `enough` values, for which `heuristic` serves as well.
// What of sixteen divided an extent still does, as long as there are 32 of it and more. Rows are
// left out as far as there are some: only then are they made shorter, since alternatives may be for
// their length alone.
absl::StatusOr<std::vector<SymbolValue>> CheckedSizes(const Fusion& group,
                                                      const ScheduleContext& context,
                                                      const Variant& heuristic, double enough) {
  std::vector<int64_t> sizes = context.sizes;
  const std::vector<const SymNode*> symbols = group.env().symbols();
  std::vector<bool> fixed(sizes.size()), of_columns(sizes.size());
  if (heuristic.plan().schedule.kind == SchedulerKind::kReduction) {
    SEAM_ASSIGN_OR_RETURN(const SizedGroup sized, SizeGroup(group, context));
    for (const std::vector<AxisId>& columns : sized.shape.held) {
      for (const SymNode* s : FreeSymbols(sized.shape.Extent(columns)))
        of_columns[absl::c_find(symbols, s) - symbols.begin()] = true;
    }
  }
  const auto serves = [&](const std::vector<int64_t>& fewer) {
    const absl::StatusOr<SizeBinding> legal = BindGiven(group, SymbolsOf(group, fewer));
    return legal.ok() && CheckConstraints(group, *legal).ok() && heuristic.Sizes(fewer).ok();
  };
  for (const bool shorter : {false, true}) {
    while (true) {
      SEAM_ASSIGN_OR_RETURN(const double values, NumValues(group, SymbolsOf(group, sizes)));
      if (values <= (shorter ? kMostValues * enough : enough)) return SymbolsOf(group, sizes);
      int largest = -1;
      for (size_t i = 0; i < sizes.size(); ++i) {
        if (!fixed[i] && of_columns[i] == shorter && (largest < 0 || sizes[i] > sizes[largest]))
          largest = static_cast<int>(i);
      }
      if (largest < 0) break;
      std::vector<int64_t> fewer = sizes;
      const int64_t size = sizes[largest];
      fewer[largest] = size >= 32 ? size / 32 * 16 + size % 16 : CeilDivide(size, 2);
      if (fewer[largest] < size && serves(fewer)) {
        sizes = std::move(fewer);
      } else {
        fixed[largest] = true;
      }
    }
  }
  return absl::UnimplementedError(
      "it has too many values for the reference, and no symbol by which there could be fewer");
}

absl::StatusOr<Expected> MakeExpected(const Fusion& group, const ScheduleContext& context,
                                      const Schedule& heuristic, const TuneOptions& options) {
  SEAM_ASSIGN_OR_RETURN(LaunchPlan plan, FindScheduler(heuristic.kind)->lower(group, heuristic));
  SEAM_ASSIGN_OR_RETURN(const std::shared_ptr<Variant> variant,
                        Variant::Make(group, std::move(plan)));
  Expected expected;
  SEAM_ASSIGN_OR_RETURN(expected.symbols,
                        CheckedSizes(group, context, *variant, options.checked_values));
  SEAM_ASSIGN_OR_RETURN(const SizeBinding binding, BindGiven(group, expected.symbols));
  SEAM_ASSIGN_OR_RETURN(expected.inputs, RandomInputs(group, binding, options.seed));
  for (const SymbolValue& s : expected.symbols) expected.bindings.emplace(s.name, s.value);
  SEAM_ASSIGN_OR_RETURN(expected.envelopes,
                        MakeEnvelopes(group, expected.bindings, expected.inputs, kPerturbedRuns));
  SEAM_ASSIGN_OR_RETURN(const double values, NumValues(group, expected.symbols));
  expected.most_runs =
      static_cast<int>(std::min<double>(kMostRuns, kMostOfCheck / std::max(values, 1.0)));
  return expected;
}

}  // namespace

class Tuner {
 public:
  Tuner(Executable::Impl& impl, const TuneOptions& options)
      : impl_(impl),
        options_(options),
        timer_(options.timer ? options.timer : TimeOnThisGpu),
        clock_(options.clock ? options.clock : SteadySeconds) {}

  static absl::StatusOr<TuneResult> Run(const Executable& executable,
                                        absl::Span<const SymbolValue> symbols,
                                        const TuneOptions& options) {
    return Tuner(*executable.impl_, options).TuneAll(symbols);
  }
  static absl::StatusOr<std::vector<Schedule>> Schedules(const Executable& executable,
                                                         absl::Span<const SymbolValue> symbols,
                                                         absl::string_view fields) {
    SEAM_ASSIGN_OR_RETURN(const GroupCall call, OnlyGroup(*executable.impl_, symbols));
    return SchedulesOf(call, fields);
  }
  static absl::StatusOr<std::vector<absl::StatusOr<Executable>>> CompileEach(
      const Executable& executable, absl::Span<const SymbolValue> symbols,
      absl::Span<const Schedule> schedules) {
    SEAM_ASSIGN_OR_RETURN(const GroupCall call, OnlyGroup(*executable.impl_, symbols));
    std::vector<Candidate> candidates(schedules.size());
    for (size_t i = 0; i < schedules.size(); ++i) candidates[i].schedule = schedules[i];
    const std::vector<absl::Status> statuses =
        Compile(*executable.impl_, call, absl::MakeSpan(candidates));
    std::vector<absl::StatusOr<Executable>> compiled;
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (statuses[i].ok()) {
        compiled.push_back(std::move(*candidates[i].executable));
      } else {
        compiled.push_back(statuses[i]);
      }
    }
    return compiled;
  }

 private:
  using GroupCall = Executable::Impl::GroupCall;
  struct Candidate {
    Schedule schedule;
    std::unique_ptr<Executable> executable;  // Null: it is none any more.
    double us = 0;
  };

  absl::StatusOr<TuneResult> TuneAll(absl::Span<const SymbolValue> symbols);
  // What goes wrong before the heuristic's schedule has been timed is the error.
  absl::Status TuneGroup(const GroupCall& call, double deadline, TunedGroup& report);
  static absl::StatusOr<GroupCall> OnlyGroup(Executable::Impl& impl,
                                             absl::Span<const SymbolValue> symbols);
  // The heuristic's, then its alternatives or, with fields, its variants.
  static absl::StatusOr<std::vector<Schedule>> SchedulesOf(const GroupCall& call,
                                                           absl::string_view fields = "");
  // Compiles the candidates side by side; the status of each.
  static std::vector<absl::Status> Compile(Executable::Impl& impl, const GroupCall& call,
                                           absl::Span<Candidate> candidates);
  static void Make(Executable::Impl& impl, const GroupCall& call, Candidate& candidate);
  static absl::Status Check(Expected& expected, const Executable& executable);
  absl::Status TryBatch(const GroupCall& call, Expected& expected, double deadline,
                        absl::Span<Candidate> batch, TunedGroup& report);
  void Progress(const TunedGroup& report, absl::string_view what) const {
    if (options_.progress) options_.progress(absl::StrCat("group ", report.group, ": ", what));
  }

  Executable::Impl& impl_;
  const TuneOptions& options_;
  const MakeTimer timer_;
  const std::function<double()> clock_;
  CallTimer time_;  // Of the group at hand.
};

absl::StatusOr<Executable::Impl::GroupCall> Tuner::OnlyGroup(
    Executable::Impl& impl, absl::Span<const SymbolValue> symbols) {
  SEAM_ASSIGN_OR_RETURN(const std::vector<GroupCall> calls, impl.GroupsFor(symbols));
  if (calls.size() != 1 || !IsTunable(calls[0].as)) {
    return absl::InvalidArgumentError(absl::StrCat(std::string(impl.fusion().name()), ": ",
                                                   calls.size(),
                                                   " groups at these sizes, not one "
                                                   "that has a schedule"));
  }
  return calls[0];
}

absl::StatusOr<std::vector<Schedule>> Tuner::SchedulesOf(const GroupCall& call,
                                                         absl::string_view fields) {
  Program program = WholeProgram(call.group);
  program.groups[0].eased = call.eased;
  SEAM_ASSIGN_OR_RETURN(const GroupProgram::Choice choice,
                        program.groups[0].Choose(call.as, call.context, nullptr));
  const Schedule& heuristic = choice.variant->plan().schedule;
  SEAM_ASSIGN_OR_RETURN(std::vector<Schedule> schedules,
                        fields.empty() ? Alternatives(*call.group, heuristic, call.context)
                                       : Variants(*call.group, heuristic, call.context, fields));
  if (heuristic.index32 != choice.chosen->index32) {  // So do the others' indices take 64 bits.
    for (Schedule& s : schedules) s = WithIndex64(std::move(s));
  }
  schedules.insert(schedules.begin(), heuristic);
  return schedules;
}

void Tuner::Make(Executable::Impl& impl, const GroupCall& call, Candidate& candidate) {
  Program program = WholeProgram(call.group);
  program.groups[0].id = call.id;
  program.groups[0].scheduler = call.as;
  program.groups[0].fixed = candidate.schedule;
  Executable made(std::make_unique<Executable::Impl>(call.group, impl.kind(), impl.shared_backend(),
                                                     std::move(program), nullptr,
                                                     /*any_order=*/false));
  candidate.executable = std::make_unique<Executable>(std::move(made));
}

std::vector<absl::Status> Tuner::Compile(Executable::Impl& impl, const GroupCall& call,
                                         absl::Span<Candidate> candidates) {
  std::vector<absl::Status> statuses(candidates.size());
  std::vector<std::shared_ptr<Variant>> variants(candidates.size());
  std::vector<const kernel::Kernel*> kernels;
  std::vector<size_t> owner;  // Of a kernel: its candidate.
  const auto lower = [&](size_t i) -> absl::Status {
    const Schedule& schedule = candidates[i].schedule;
    if (schedule.kind != call.as) {
      return absl::InvalidArgumentError(absl::StrCat("a schedule of the scheduler ",
                                                     SchedulerName(schedule.kind),
                                                     ", expected one of ", SchedulerName(call.as)));
    }
    SEAM_ASSIGN_OR_RETURN(LaunchPlan plan,
                          FindScheduler(schedule.kind)->lower(*call.group, schedule));
    SEAM_RETURN_IF_ERROR(CheckRoom(plan, call.context.device));
    SEAM_ASSIGN_OR_RETURN(variants[i], Variant::Make(*call.group, std::move(plan)));
    return variants[i]->Sizes(call.context.sizes).status();
  };
  for (size_t i = 0; i < candidates.size(); ++i) {
    statuses[i] = lower(i);
    if (!statuses[i].ok()) continue;
    for (const KernelLaunch& launch : variants[i]->plan().launches) {
      kernels.push_back(&launch.kernel);
      owner.push_back(i);
    }
  }
  const std::vector<absl::StatusOr<std::shared_ptr<const LoadedKernel>>> loaded =
      impl.backend().LoadEach(kernels);
  for (size_t k = 0; k < loaded.size(); ++k) statuses[owner[k]].Update(loaded[k].status());
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (statuses[i].ok()) Make(impl, call, candidates[i]);
  }
  return statuses;
}

absl::Status Tuner::Check(Expected& expected, const Executable& executable) {
  SEAM_ASSIGN_OR_RETURN(const std::vector<HostTensor> outputs,
                        executable.RunOnHost(expected.inputs, expected.symbols));
  SEAM_ASSIGN_OR_RETURN(const std::vector<absl::Status> checked,
                        CheckOutputs(executable.fusion(), expected.bindings, expected.inputs,
                                     outputs, expected.envelopes, 1, expected.most_runs));
  for (const absl::Status& within : checked) {
    if (!within.ok()) return absl::DataLossError(within.message());
  }
  return absl::OkStatus();
}

// Compiles, checks and times; the first of all candidates is the heuristic's, whose errors are
// returned. What is left of the others has a time.
absl::Status Tuner::TryBatch(const GroupCall& call, Expected& expected, double deadline,
                             absl::Span<Candidate> batch, TunedGroup& report) {
  const std::vector<SymbolValue> symbols = SymbolsOf(*call.group, call.context.sizes);
  const std::vector<absl::Status> compiled = Compile(impl_, call, batch);
  for (size_t i = 0; i < batch.size(); ++i) {
    Candidate& c = batch[i];
    const bool is_heuristic = time_ == nullptr;
    bool spills = false;
    const auto attempt = [&]() -> absl::Status {
      SEAM_RETURN_IF_ERROR(compiled[i]);
      SEAM_ASSIGN_OR_RETURN(const std::vector<GroupReport> reports,
                            c.executable->CompileFor(symbols));
      spills = absl::c_any_of(reports[0].kernels, [](const KernelReport& kernel) {
        return kernel.spill_store_bytes + kernel.spill_load_bytes > 0;
      });
      if (spills && !is_heuristic) return absl::OkStatus();
      SEAM_RETURN_IF_ERROR(Check(expected, *c.executable));
      if (is_heuristic) {
        SEAM_ASSIGN_OR_RETURN(time_, timer_(*c.executable, symbols));
      }
      SEAM_ASSIGN_OR_RETURN(c.us, time_(*c.executable, kHeat));
      if (!(c.us > 0)) return absl::InternalError(absl::StrCat("it was timed as ", c.us, " us"));
      return absl::OkStatus();
    };
    if (!is_heuristic && clock_() >= deadline) {
      ++report.untried;
      c.executable = nullptr;
      continue;
    }
    const absl::Status status = attempt();
    if (is_heuristic) {
      SEAM_RETURN_IF_ERROR(status);
      continue;
    }
    if (status.ok() && !spills) {
      ++report.tried;
      continue;
    }
    c.executable = nullptr;
    ++(spills ? report.spilled : absl::IsDataLoss(status) ? report.wrong : report.failed);
    if (spills) continue;
    if (report.note.empty())
      report.note = absl::StrCat(c.schedule.ToString(), ": ", status.message());
  }
  return absl::OkStatus();
}

absl::Status Tuner::TuneGroup(const GroupCall& call, double deadline, TunedGroup& report) {
  SEAM_ASSIGN_OR_RETURN(const std::vector<Schedule> schedules, SchedulesOf(call));
  const Schedule& heuristic = schedules[0];
  report.heuristic = report.best = heuristic.ToString();
  report.untried = static_cast<int>(schedules.size()) - 1;
  Progress(report, "asking the reference");
  SEAM_ASSIGN_OR_RETURN(Expected expected,
                        MakeExpected(*call.group, call.context, heuristic, options_));
  std::vector<Candidate> candidates(schedules.size());
  for (size_t i = 0; i < schedules.size(); ++i) candidates[i].schedule = schedules[i];

  const absl::Cleanup forget = [&] { time_ = nullptr; };  // It has the memory of calls.
  const size_t at_once = std::max(8u, std::thread::hardware_concurrency());
  for (size_t begin = 0; begin < candidates.size(); begin += at_once) {
    if (begin > 0 && clock_() >= deadline) break;
    Progress(report, absl::StrCat("tried ", begin, " of ", candidates.size(), " schedules"));
    const size_t size = std::min(at_once, candidates.size() - begin);
    report.untried -= static_cast<int>(begin == 0 ? size - 1 : size);
    SEAM_RETURN_IF_ERROR(TryBatch(call, expected, deadline,
                                  absl::MakeSpan(candidates).subspan(begin, size), report));
  }

  std::vector<Candidate*> finalists;
  for (size_t i = 1; i < candidates.size(); ++i) {
    if (candidates[i].executable != nullptr && candidates[i].us > 0)
      finalists.push_back(&candidates[i]);
  }
  std::stable_sort(finalists.begin(), finalists.end(),
                   [](const Candidate* a, const Candidate* b) { return a->us < b->us; });
  for (const Candidate* c : finalists) report.timed.push_back({c->schedule.ToString(), c->us});
  finalists.resize(std::min<size_t>(finalists.size(), kFinalists));
  finalists.insert(finalists.begin(), &candidates[0]);
  const Candidate* winner = nullptr;
  for (Candidate* c : finalists) {
    SEAM_ASSIGN_OR_RETURN(c->us, time_(*c->executable, kFinal));
    const bool gains = c->us * kLeastGain < candidates[0].us;
    if (winner == nullptr || (gains && c->us < winner->us)) winner = c;
  }
  report.heuristic_us = candidates[0].us;
  report.best_us = winner->us;
  report.best = winner->schedule.ToString();
  if (options_.store != nullptr) {
    options_.store->Store(*call.group, call.context,
                          {winner->schedule, winner->us, candidates[0].us, report.tried});
  }
  return absl::OkStatus();
}

absl::StatusOr<TuneResult> Tuner::TuneAll(absl::Span<const SymbolValue> symbols) {
  const double begin = clock_();
  TuneResult result;
  result.graph = std::string(impl_.fusion().name());
  result.symbols.assign(symbols.begin(), symbols.end());
  result.device = impl_.backend().cuda_device() != nullptr
                      ? impl_.backend().cuda_device()->properties().name
                      : impl_.backend().device().name;
  if (options_.store != nullptr) result.directory = options_.store->directory();
  SEAM_ASSIGN_OR_RETURN(const std::vector<GroupCall> calls, impl_.GroupsFor(symbols));
  std::map<std::string, int> known;  // By the key of what is stored: index of the result.
  std::vector<std::pair<const GroupCall*, int>> fresh;
  for (const GroupCall& call : calls) {
    if (!IsTunable(call.as)) continue;
    TunedGroup report;
    report.group = call.id;
    report.scheduler = call.as;
    const int index = static_cast<int>(result.groups.size());
    const auto [it, is_new] =
        known.try_emplace(TunedSchedules::KeyOf(*call.group, call.as, call.context).Hex(), index);
    if (is_new) {
      fresh.emplace_back(&call, index);
    } else {
      report.same_as = it->second;
    }
    result.groups.push_back(std::move(report));
  }
  for (size_t i = 0; i < fresh.size(); ++i) {
    TunedGroup& report = result.groups[fresh[i].second];
    // What one group leaves of its share is the others'.
    const double now = clock_();
    const double left = std::max(0.0, begin + options_.seconds - now);
    const absl::Status status =
        TuneGroup(*fresh[i].first, now + left / static_cast<double>(fresh.size() - i), report);
    impl_.backend().ReleaseMemory();                 // Of the candidates' intermediate values.
    if (absl::IsUnavailable(status)) return status;  // There is no timer.
    if (!status.ok()) report.note = absl::StrCat("not tuned: ", status.message());
  }
  result.seconds = clock_() - begin;
  return result;
}

absl::StatusOr<TuneResult> Tune(const Executable& executable, absl::Span<const SymbolValue> symbols,
                                const TuneOptions& options) {
  if (executable.backend() == BackendKind::kReference) {
    return absl::InvalidArgumentError("the reference has no schedules to tune");
  }
  return Tuner::Run(executable, symbols, options);
}

absl::StatusOr<std::vector<Schedule>> CandidateSchedules(const Executable& executable,
                                                         absl::Span<const SymbolValue> symbols,
                                                         absl::string_view fields) {
  return Tuner::Schedules(executable, symbols, fields);
}

absl::StatusOr<std::vector<absl::StatusOr<Executable>>> CompileSchedules(
    const Executable& executable, absl::Span<const SymbolValue> symbols,
    absl::Span<const Schedule> schedules) {
  return Tuner::CompileEach(executable, symbols, schedules);
}

}  // namespace seam
