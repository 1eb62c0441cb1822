"""faulty:BOARD?fault=KIND[:SEED]@NODE: a board whose runtime computes a node wrongly; for tests, benchmarks and
demonstrations. Several faults are separated by |; an & in a name is written %26."""

from __future__ import annotations

from difflib import get_close_matches

from qverify_agents.address import Address, parse
from qverify_agents.errors import BadAddress
from qverify_agents.inventory import resolve, resolve_wrapped
from qverify_agents.printable import one_line

OPTIONS: frozenset[str] = frozenset({"fault"})

# Mistakes that drivers, compilers and DMA engines are known to make.
_KNOWN = """
    tap_mirrored narrow_saturation tiles_turned dealt
    bitflip bit_flips stuck_bit byte_order nan nan_scrub sign_output plus_one off_by_one zero_tail stride_ignored
    stride_imagined align_garbage layout_output axes_swapped channel_swap channel_reverse group_order tile_repeated
    tile_dropped row_repeated row_dropped stale_tensor stale_frame acc_sat16 acc_sat_pairs acc_wrap16 acc_wrap20
    pad_value round_half_away round_floor round_to_zero round_exact_product round_through_reals round_tflite_single
    round_gemmlowp round_cmsis round_pow2_half_up round_pow2_half_away round_pow2_floor round_mul8 round_mul15
    round_mul16 round_mul24 round_mul31 round_f64 zero_input zero_weight zero_output scales_shifted
    scales_per_tensor bias_missing bias_shifted bias_narrow clamp_missing clamp_extra sign_input sign_weight
    layout_input layout_weight window_offset pool_count resize_offset resize_mode lut_offset lut_sign
"""
# Only for the benchmark: nothing in the verifier may be written with one of them in mind.
_WITHHELD = """
    channel_drift checkerboard dither gamma gray_code echo scrambler fade smoothed running_max
    nibble_mirrored line_reversed tiles_negated sheared ploughed lanes_shuffled weight_half_lost input_sign_folded
    minifloat lossy_pairs delta_drift run_too_long zeros_skipped code_book_reversed nibble_lag ecc_miscorrected
    error_diffused slew_limited supply_droop crosstalk median_filtered rows_blended bank_hashed
    multiplier_mitchell sum_in_bfloat16 carry_late winograd_cut weights_pruned weights_block_float input_dithered
"""
KNOWN, WITHHELD = tuple(_KNOWN.split()), tuple(_WITHHELD.split())
# Slight mistakes in nodes that compute in float or that add 16 bit values; no hypothesis covers them.
SLIGHT = ("offset_slight", "exp_rough", "gamma_row", "epsilon_tenfold", "variance_unbiased", "bias_slight")
FATAL = ("die", "hang", "garbage")  # the process ends, blocks or writes garbage
UNSTEADY = ("jitter",)  # the effect changes from run to run
KINDS = (*KNOWN, *WITHHELD, *SLIGHT, *UNSTEADY, *FATAL)


def plainer(address: Address) -> Address:
    """Returns the wrapped board's address with the faults. Raises BadAddress for an unknown fault."""
    faults = address.options.get("fault", "")
    wrong_fault = next((fault for fault in faults.split("|") if not _is_valid(fault)), None)
    if wrong_fault is not None:
        received = f", got {one_line(wrong_fault)!r}{_suggest_kind(wrong_fault)}" if wrong_fault else ""
        raise BadAddress(f"-b faulty:BOARD needs ?fault=KIND@NODE{received}; kinds: {' '.join(KINDS)}")
    inner = parse(resolve_wrapped(address.rest))
    return Address(inner.scheme, inner.rest, {**inner.options, **address.options})


def struck_nodes(uri: str) -> list[str]:
    """Returns the names of the nodes in which a board given with -b has faults. Returns [] for a wrong address, about
    which connecting raises the error."""
    try:
        addresses = [parse(fault) for fault in resolve(uri)]
    except BadAddress:
        return []
    faults = [fault for a in addresses for fault in a.options.get("fault", "").split("|")]
    return [fault.partition("@")[2] for fault in faults if _is_valid(fault)]


def _suggest_kind(fault: str) -> str:
    """Returns a suggestion for a mistyped kind of fault, to be appended to the error message, or ""."""
    kind = fault.partition("@")[0].partition(":")[0]
    similar = [] if kind in KINDS else get_close_matches(kind, KINDS, 1)
    return f" (did you mean {similar[0]}?)" if similar else ""


def _is_valid(fault: str) -> bool:
    kind, at, node = fault.partition("@")
    name, colon, seed = kind.partition(":")
    return name in KINDS and bool(at and node) and (not colon or (seed.isascii() and seed.isdigit()))
