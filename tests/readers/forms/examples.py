"""Invented output of other tools, in the forms in which they print it."""

# ruff: noqa: E501

from __future__ import annotations

NSYS = """\
 ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

 Time (%)  Total Time (ns)  Instances   Avg (ns)    Med (ns)   Min (ns)  Max (ns)  StdDev (ns)                 Name
 --------  ---------------  ---------  ----------  ----------  --------  --------  -----------  ---------------------------------
     75.0    1,500,000,000        100  15000000.0  15000000.0  14000000  16000000       1000.0  ampere_sgemm_128x128_nn
     25.0      500,000,000       1000    500000.0    500000.0    400000    600000       1000.0  void at::native::vectorized_elementwise_kernel<(int)4, at::native::AddFunctor<float>>(int, T2, T3)

 ** CUDA API Summary (cuda_api_sum):

 Time (%)  Total Time (ns)  Num Calls   Avg (ns)    Med (ns)   Min (ns)  Max (ns)  StdDev (ns)          Name
 --------  ---------------  ---------  ----------  ----------  --------  --------  -----------  ---------------------
     90.0    1,800,000,000        100  18000000.0  18000000.0  14000000  16000000       1000.0  cudaStreamSynchronize
     10.0      200,000,000       1100    181818.0    181818.0    400000    600000       1000.0  cudaLaunchKernel

 ** CUDA GPU MemOps Summary (by Time) (cuda_gpu_mem_time_sum):

 Time (%)  Total Time (ns)  Count  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)      Operation
 --------  ---------------  -----  --------  --------  --------  --------  -----------  ------------------
    100.0       10,000,000     20  500000.0  500000.0    400000    600000       1000.0  [CUDA memcpy HtoD]
"""

NVPROF = """\
==123== Profiling application: python train.py
==123== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:   80.00%  3.20000s       100  32.000ms  30.000us  35.000ms  void cudnn::detail::implicit_convolve_sgemm<float>(int, int)
                   20.00%  800.00ms       200  4.0000ms  3.0000us  5.0000ms  [CUDA memcpy HtoD]
      API calls:   90.00%  3.60000s       100  36.000ms  30.000us  36.000ms  cudaMemcpy
                   10.00%  400.00ms       300  1.3333ms  3.0000us  5.0000ms  cudaLaunchKernel
"""

LIGHTNING = """\
FIT Profiler Report

-----------------------------------------------------------------------------------------------------
|  Action                                         |  Mean duration (s)|  Num calls |  Total time (s) |  Percentage %   |
-----------------------------------------------------------------------------------------------------
|  Total                                          |  -                |  1234      |  100.0          |  100 %          |
-----------------------------------------------------------------------------------------------------
|  run_training_epoch                             |  98.0             |  1         |  98.0           |  98             |
|  [_TrainingEpochLoop].train_dataloader_next     |  0.84             |  100       |  84.0           |  84             |
|  run_training_batch                             |  0.12             |  100       |  12.0           |  12             |
|  [Strategy]SingleDeviceStrategy.training_step   |  0.05             |  100       |  5.0            |  5              |
|  [Strategy]SingleDeviceStrategy.backward        |  0.04             |  100       |  4.0            |  4              |
|  [LightningModule]Net.optimizer_step            |  0.12             |  100       |  12.0           |  12             |
-----------------------------------------------------------------------------------------------------
"""

CPROFILE = """\
         12345 function calls (12000 primitive calls) in 10.000 seconds

   Ordered by: cumulative time

   ncalls  tottime  percall  cumtime  percall filename:lineno(function)
     12/3    0.100    0.008   10.000    3.333 train.py:1(<module>)
      100    8.000    0.080    8.500    0.085 prepare.py:10(tokenize)
     5000    1.900    0.000    1.900    0.000 {method 'acquire' of '_thread.lock' objects}

"""

LINES = """\
Timer unit: 1e-06 s

Total time: 10 s
File: train.py
Function: train at line 10

Line #      Hits         Time  Per Hit   % Time  Line Contents
==============================================================
    10                                           def train():
    11       101    8000000.0  80000.0     80.0      for x in loader:
    12       100    2000000.0  20000.0     20.0          step(x)

"""

ASCEND = """\
Device_id,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)
0,MatMulV2,AI_CORE,1000,60000.5,10.0,60.0,100.0,60.0
0,Cast,AI_VECTOR_CORE,2000,40000.0,10.0,20.0,100.0,40.0
"""

PADDLE = """\
------------------------------------------Operator Summary------------------------------------------
Time unit: ms
----------------------------  ------  ----------------------------------------  ----------------------------------------
Name                          Calls   CPU Total / Avg / Max / Min / Ratio(%)    GPU Total / Avg / Max / Min / Ratio(%)
----------------------------  ------  ----------------------------------------  ----------------------------------------
---------------------------------------------Thread: All threads merged---------------------------------------------
conv2d dygraph                100     50.00 / 0.50 / 1.00 / 0.10 / 50.00        80.00 / 0.80 / 1.00 / 0.10 / 80.00
matmul dygraph                100     10.00 / 0.10 / 1.00 / 0.10 / 10.00        20.00 / 0.20 / 1.00 / 0.10 / 20.00
----------------------------  ------  ----------------------------------------  ----------------------------------------
"""

BY_HAND = """\
My kernels:

| Kernel | Time (ms) | Calls |
|---|---|---|
| ampere_sgemm_128x128_nn | 1500 | 100 |
| softmax_warp_forward | **500.5** | 10 |
"""

BY_HAND_OF_STAGES = """\
Stage | time | %
--- | --- | ---
data loading | 840 ms | 84%
forward | 100 ms | 10%
backward | 60 ms | 6%
"""

DEEPSPEED_FLOPS = """\
-------------------------- DeepSpeed Flops Profiler --------------------------
Profile Summary at step 10:
world size:                                                             1
batch size per GPU:                                                     80
params per gpu:                                                         336.23 M
fwd flops per GPU:                                                      6279.86 G
fwd latency:                                                            100.00 ms
bwd latency:                                                            200.00 ms
step latency:                                                           300.00 ms
iter latency:                                                           600.00 ms
samples/second:                                                         133.3
"""

MEGATRON = """\
 iteration      100/     1000 | consumed samples:        25600 | elapsed time per iteration (ms): 1500.0 | throughput per GPU (TFLOP/s/GPU): 123.4 | learning rate: 1.0E-04 |
(min, max) time across ranks (ms):
    forward-backward ...............................: (1000.00, 1200.00)
    forward-compute ................................: (300.00, 400.00)
    backward-compute ...............................: (600.00, 700.00)
    batch-generator ................................: (50.00, 60.00)
    all-grads-sync .................................: (90.00, 100.00)
    optimizer ......................................: (190.00, 200.00)
"""

SMI = """\
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 525.60.13    Driver Version: 525.60.13    CUDA Version: 12.0     |
|   0  NVIDIA RTX A5000    Off  | 00000000:01:00.0 Off |                  Off |
| 30%   60C    P2   120W / 230W |  12345MiB / 24564MiB |     37%      Default |
"""

QUERY = """\
timestamp, name, utilization.gpu [%], memory.used [MiB]
2024/01/01 00:00:00.000, NVIDIA A100, 30 %, 12000 MiB
2024/01/01 00:00:01.000, NVIDIA A100, 50 %, 13000 MiB
"""

TRAINER = """\
{'loss': 0.51, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 1.0}
{'train_runtime': 123.4, 'train_samples_per_second': 81.0, 'train_steps_per_second': 1.2, 'train_loss': 0.5, 'epoch': 1.0}
"""

TITAN = """\
[rank0]:2024-12-12 - root - INFO - step:  1  loss:  8.0  memory:  20.10GiB(25.38%)  tps: 3,000  tflops: 100.00  mfu: 10.00%
[rank0]:2024-12-12 - root - INFO - step: 10  loss:  7.0  memory:  22.10GiB(27.38%)  tps: 3,500  tflops: 110.00  mfu: 12.00%
"""

DEEPSPEED_LOG = """\
[2024-01-02 03:04:05,678] [INFO] [timer.py:199:stop] epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=12.3, CurrSamplesPerSec=12.5, MemAllocated=2.1GB, MaxMemAllocated=3.4GB
"""

NSYS_RANGES = """\
 Time (%)  Total Time (ns)  Instances   Avg (ns)    Med (ns)   Min (ns)  Max (ns)  StdDev (ns)   Style       Range
 --------  ---------------  ---------  ----------  ----------  --------  --------  -----------  -------  -------------
     50.0    1,000,000,000        100  10000000.0  10000000.0  10000000  10000000          0.0  PushPop  :train step
     30.0      600,000,000        100   6000000.0   6000000.0   6000000   6000000          0.0  PushPop  :data loading
     20.0      400,000,000        100   4000000.0   4000000.0   4000000   4000000          0.0  PushPop  :backward
"""

ADVANCED = """\
FIT Profiler Report

Profile stats for: run_training_epoch
         5000 function calls in 12.000 seconds

   Ordered by: cumulative time

   ncalls  tottime  percall  cumtime  percall filename:lineno(function)
      100    9.000    0.090    9.000    0.090 train.py:7(augment)
        1    0.500    0.500   12.000   12.000 fit_loop.py:1(advance)

"""

CPROFILE_LOADER = """\
         12345 function calls in 10.000 seconds

   ncalls  tottime  percall  cumtime  percall filename:lineno(function)
      101    0.100    0.001    7.500    0.074 /site/torch/utils/data/dataloader.py:700(__next__)
      101    7.000    0.070    7.400    0.073 /site/torch/utils/data/dataloader.py:760(_next_data)
      100    2.000    0.020    2.000    0.020 {method 'run_backward' of 'torch._C._EngineBase' objects}

"""

DEEPSPEED_TIMERS = """\
[2024-01-02 03:04:05,678] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | fwd_microstep: 110.00 | bwd_microstep: 190.00 | bwd_inner_microstep: 150.00 | bwd_allreduce_microstep: 40.00 | step_microstep: 310.00
some other line
[2024-01-02 03:04:06,678] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | fwd_microstep: 90.00 | bwd_microstep: 210.00 | bwd_inner_microstep: 150.00 | bwd_allreduce_microstep: 60.00 | step_microstep: 290.00
"""

MEGATRON_LINE = """\
time (ms) | forward-compute: 300.0 | backward-compute: 700.0 | backward-params-all-reduce: 100.0 | optimizer: 150.0 | batch-generator: 50.0
"""

DMON = """\
# gpu   pwr gtemp mtemp    sm   mem   enc   dec  mclk  pclk
# Idx     W     C     C     %     %     %     %   MHz   MHz
    0   100    60     -    20     5     0     0  5000  1500
    1   100    60     -    90     5     0     0  5000  1500
    0   120    61     -    40     5     0     0  5000  1500
"""

PYINSTRUMENT = """\

  _     ._   __/__   _ _  _  _ _/_   Recorded: 10:00:00  Samples:  1000
 /_//_/// /_\\ / //_// / //_'/ //     Duration: 10.000    CPU time: 9.500
/   _/                      v5.1.3

Profile at train.py:7

10.000 <module>  train.py:1
└─ 9.900 train  train.py:6
   ├─ 7.000 collate  prepare.py:4
   │  ├─ 6.000 [self]  prepare.py
   │  └─ 1.000 sorted  <built-in>
   ├─ 2.500 Net._wrapped_call_impl  torch/nn/modules/module.py:1751
   │  └─ [2 frames hidden]  torch
   │     └─ 2.400 Net.forward  model.py:9
   └─ 0.400 collate  prepare.py:4

"""

PADDLE_EVENTS = """\
------------------------->     Profiling Report     <-------------------------

Note! This Report merge all thread info into one.
Place: All
Time unit: ms
Sorted by total time in descending order in the same thread

Total time: 20.0
  Computation time       Total: 8.0    Ratio: 40%
  Framework overhead     Total: 12.0     Ratio: 60%

-------------------------     GpuMemCpy Summary     -------------------------

GpuMemcpy                Calls: 3           Total: 0.2    Ratio: 1%

-------------------------       Event Summary       -------------------------

Event                      Calls       Total       CPU Time (Ratio)        GPU Time (Ratio)        Min.        Max.        Ave.        Ratio.
conv2d                     4           12.0        9.000000 (0.750000)     3.000000 (0.250000)     2.0         4.0         3.0         0.6
fill_constant              2           4.0         4.000000 (1.000000)     0.000000 (0.000000)     1.0         3.0         2.0         0.2
"""

LIGHTNING_OLD = """\
Profiler Report

Action              \t|  Mean duration (s)\t|  Total time (s)
-----------------------------------------------------------------
on_train_start      \t|  0.0            \t|  0.0
get_train_batch     \t|  0.06           \t|  6.0
model_forward       \t|  0.02           \t|  2.0
model_backward      \t|  0.01           \t|  1.0
optimizer_step      \t|  0.01           \t|  1.0
"""

DATA_TIME = """\
[01/02 03:04:05] epoch: 1/20 - batch: 6/13 - loss: 0.22 - time: 0.5000 - data_time: 0.1000 - lr: 0.009
[01/02 03:04:06] epoch: 1/20 - batch: 7/13 - loss: 0.21 - time: 0.7000 - data_time: 0.3000 - lr: 0.009
[01/02 03:04:16] epoch: 1/20 - batch: 8/13 - loss: 0.20 - time: 10.8000 - data_time: 10.4000 - lr: 0.009
"""

PROGRAM_TIMES = """\
Forward Pass: 0.2512345678901,
Backward: 2.7512345678901,
Optimizer: 0.0101234567890,
Load Time: 0.0101234567890
"""
