"""faulty:BOARD?fault=KIND[:SEED]@NODE: a board whose runtime corrupts a node; for tests, benchmarks and demonstrations.
Several faults are separated by |; an & within a name is written %26."""

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
# For the benchmark: nothing in the verifier may be written for one of them.
_WITHHELD = """
    channel_drift checkerboard dither gamma gray_code echo scrambler fade smoothed running_max
    nibble_mirrored line_reversed tiles_negated sheared ploughed lanes_shuffled weight_half_lost input_sign_folded
    minifloat lossy_pairs delta_drift run_too_long zeros_skipped code_book_reversed nibble_lag ecc_miscorrected
    error_diffused slew_limited supply_droop crosstalk median_filtered rows_blended bank_hashed
    multiplier_mitchell sum_in_bfloat16 carry_late winograd_cut weights_pruned weights_block_float input_dithered
"""
KNOWN, WITHHELD = tuple(_KNOWN.split()), tuple(_WITHHELD.split())
# Slight mistakes in nodes that are left in float or sum 16 bits; no hypothesis names them.
SLIGHT = ("offset_slight", "exp_rough", "gamma_row", "epsilon_tenfold", "variance_unbiased", "bias_slight")
FATAL = ("die", "hang", "garbage")  # the process ends or blocks
UNSTEADY = ("jitter",)  # not the same from run to run
KINDS = (*KNOWN, *WITHHELD, *SLIGHT, *UNSTEADY, *FATAL)


def plainer(address: Address) -> Address:
    """Returns the wrapped board's address with the faults. Raises BadAddress for an unknown fault."""
    faults = address.options.get("fault", "")
    wrong = next((one for one in faults.split("|") if not _valid(one)), None)
    if wrong is not None:
        got = f", got {one_line(wrong)!r}{_suggest(wrong)}" if wrong else ""
        raise BadAddress(f"-b faulty:BOARD needs ?fault=KIND@NODE{got}; kinds: {' '.join(KINDS)}")
    inner = parse(resolve_wrapped(address.rest))
    return Address(inner.scheme, inner.rest, {**inner.options, **address.options})


def struck_nodes(uri: str) -> list[str]:
    """Returns the names of the nodes that the faults of a board of -b strike, of one of the inventory too; none where
    an address is wrong, which connecting tells."""
    try:
        addresses = [parse(one) for one in resolve(uri)]
    except BadAddress:
        return []
    faults = [one for a in addresses for one in a.options.get("fault", "").split("|")]
    return [one.partition("@")[2] for one in faults if _valid(one)]


def _suggest(wrong: str) -> str:
    """Returns the kind that a mistyped one may have meant, to be added to an error."""
    kind = wrong.partition("@")[0].partition(":")[0]
    near = [] if kind in KINDS else get_close_matches(kind, KINDS, 1)
    return f" (did you mean {near[0]}?)" if near else ""


def _valid(one: str) -> bool:
    kind, at, node = one.partition("@")
    name, colon, seed = kind.partition(":")
    return name in KINDS and bool(at and node) and (not colon or (seed.isascii() and seed.isdigit()))
